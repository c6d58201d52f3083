// Package schema answers what a gRPC method takes and gives: it finds the
// method's messages in a descriptor set or asks the service by reflection,
// encodes a request from JSON, and makes predicates over replies. All of it is
// done before any load; the load itself is of bytes.
package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jhump/protoreflect/grpcreflect"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Method is a gRPC method whose messages are known.
type Method struct {
	desc  protoreflect.MethodDescriptor
	types *dynamicpb.Types
}

// splitMethod takes /package.Service/Method apart.
func splitMethod(full string) (service protoreflect.FullName, method protoreflect.Name, err error) {
	rest, ok := strings.CutPrefix(full, "/")
	svc, m, two := strings.Cut(rest, "/")
	if !ok || !two || !protoreflect.FullName(svc).IsValid() || !protoreflect.Name(m).IsValid() {
		return "", "", fmt.Errorf("method %q: want /package.Service/Method", full)
	}
	return protoreflect.FullName(svc), protoreflect.Name(m), nil
}

// FromProtoset finds a method in an encoded FileDescriptorSet that holds its file
// and all that this imports, as `protoc --include_imports --descriptor_set_out`
// and `buf build` make it.
func FromProtoset(set []byte, method string) (*Method, error) {
	var fds descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &fds); err != nil {
		return nil, fmt.Errorf("not a descriptor set: %w", err)
	}
	files, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("descriptor set: %w; make it with its imports", err)
	}
	return find(files, method)
}

func find(files *protoregistry.Files, full string) (*Method, error) {
	service, name, err := splitMethod(full)
	if err != nil {
		return nil, err
	}
	d, err := files.FindDescriptorByName(service)
	if err != nil {
		return nil, fmt.Errorf("service %s: %w; it has %s", service, err, services(files))
	}
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no service; there is %s", service, services(files))
	}
	md := sd.Methods().ByName(name)
	if md == nil {
		var have []string
		for i := range sd.Methods().Len() {
			have = append(have, string(sd.Methods().Get(i).Name()))
		}
		return nil, fmt.Errorf("service %s has no method %s; it has %s", service, name, strings.Join(have, ", "))
	}
	return &Method{desc: md, types: dynamicpb.NewTypes(files)}, nil
}

func services(files *protoregistry.Files) string {
	var have []string
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			have = append(have, string(f.Services().Get(i).FullName()))
		}
		return true
	})
	if len(have) == 0 {
		return "no service"
	}
	return strings.Join(have, ", ")
}

// Reflect asks the service at the other end of cc for a method, by the reflection
// protocol in either version. The context may carry metadata.
func Reflect(ctx context.Context, cc grpc.ClientConnInterface, method string) (*Method, error) {
	service, _, err := splitMethod(method)
	if err != nil {
		return nil, err
	}
	client := grpcreflect.NewClientAuto(ctx, cc)
	defer client.Reset()
	sd, err := client.ResolveService(string(service))
	if err != nil {
		if grpcreflect.IsElementNotFoundError(err) {
			have, _ := client.ListServices()
			return nil, fmt.Errorf("reflection: the service has no %s; it has %s", service, strings.Join(have, ", "))
		}
		return nil, fmt.Errorf("reflection: %w; where the service does not reflect, give --protoset", err)
	}
	var fds descriptorpb.FileDescriptorSet
	seen := map[string]bool{}
	var collect func(f protoreflect.FileDescriptor)
	collect = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			collect(f.Imports().Get(i).FileDescriptor)
		}
		fds.File = append(fds.File, protodesc.ToFileDescriptorProto(f))
	}
	collect(sd.UnwrapService().ParentFile())
	files, err := protodesc.NewFiles(&fds)
	if err != nil {
		return nil, fmt.Errorf("reflection: the service describes itself wrongly: %w", err)
	}
	return find(files, method)
}

// Streams says which sides of the method are streams.
func (m *Method) Streams() (client, server bool) {
	return m.desc.IsStreamingClient(), m.desc.IsStreamingServer()
}

// Encode makes the bytes of a request from its JSON form. A field that the
// message does not have is an error.
func (m *Method) Encode(json []byte) ([]byte, error) {
	msg := dynamicpb.NewMessage(m.desc.Input())
	if err := (protojson.UnmarshalOptions{Resolver: m.types}).Unmarshal(json, msg); err != nil {
		return nil, fmt.Errorf("request of %s: %w", m.desc.Input().FullName(), err)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(msg)
}

// Check says whether bytes are a request of the method.
func (m *Method) Check(request []byte) error {
	if err := proto.Unmarshal(request, dynamicpb.NewMessage(m.desc.Input())); err != nil {
		return fmt.Errorf("not a %s: %w", m.desc.Input().FullName(), err)
	}
	return nil
}

// RequestField finds the scalar field of a request that an id goes into, by a path
// of names: its numbers, and whether it is text.
func (m *Method) RequestField(path string) (numbers []protowire.Number, text bool, err error) {
	fields, err := resolve(m.desc.Input(), path)
	if err != nil {
		return nil, false, err
	}
	for _, f := range fields {
		numbers = append(numbers, f.Number())
	}
	switch last := fields[len(fields)-1]; last.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return numbers, true, nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return numbers, false, nil
	default:
		return nil, false, fmt.Errorf("field %s is a %s; an id wants an int32, int64, uint32, uint64, string or bytes", path, last.Kind())
	}
}

var errRepeated = errors.New("it is repeated or a map")

// resolve finds the fields of a path a.b.c, all singular, all but the last messages.
func resolve(md protoreflect.MessageDescriptor, path string) ([]protoreflect.FieldDescriptor, error) {
	var out []protoreflect.FieldDescriptor
	for i, name := range strings.Split(path, ".") {
		if i > 0 {
			if md = out[i-1].Message(); md == nil {
				return nil, fmt.Errorf("field %s: %s is a %s and has no fields", path, out[i-1].Name(), out[i-1].Kind())
			}
		}
		f := md.Fields().ByTextName(name)
		if f == nil {
			f = md.Fields().ByJSONName(name)
		}
		if f == nil {
			var have []string
			for i := range md.Fields().Len() {
				have = append(have, string(md.Fields().Get(i).Name()))
			}
			return nil, fmt.Errorf("field %s: %s has no %q; it has %s", path, md.FullName(), name, strings.Join(have, ", "))
		}
		if f.Cardinality() == protoreflect.Repeated {
			return nil, fmt.Errorf("field %s: %q: %w", path, name, errRepeated)
		}
		out = append(out, f)
	}
	return out, nil
}
