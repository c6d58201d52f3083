//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/loadgen/schema"
)

// requestOptions are the flags of rung load about what a request is, how it
// travels, and which answer is a good one.
type requestOptions struct {
	tls, tlsInsecure               bool
	tlsCA, tlsCert, tlsKey, tlsFor string

	protoset    string
	reflect     bool
	bodyJSON    string
	successWhen []string
	idField     string
	ids         loadgen.IDConfig
}

func (o *requestOptions) register(f *pflag.FlagSet, c *loadgen.Config) {
	f.BoolVar(&o.tls, "tls", false, "speak TLS, of at least version 1.2; rest-h2c is then h2, agreed on by ALPN")
	f.StringVar(&o.tlsCA, "tls-ca", "", "`FILE` of PEM certificates to trust instead of this host's; implies --tls")
	f.StringVar(&o.tlsCert, "tls-cert", "", "`FILE` of the client's PEM certificate; implies --tls")
	f.StringVar(&o.tlsKey, "tls-key", "", "`FILE` of the client's PEM key")
	f.StringVar(&o.tlsFor, "tls-server-name", "", "`NAME` the service's certificate must be for (default the host of --address); implies --tls")
	f.BoolVar(&o.tlsInsecure, "tls-insecure", false, "take any certificate; implies --tls")
	f.StringArrayVar(&c.Headers, "header", nil, "`NAME: VALUE` of a header, or of metadata for gRPC (base64 if the name ends in -bin); may be repeated")
	f.StringVar(&c.HTTPMethod, "http-method", "POST", "method of the rest protocols")
	f.StringVar(&o.protoset, "protoset", "", "`FILE` with the descriptor set of --method and all it imports, as protoc --include_imports --descriptor_set_out makes it")
	f.BoolVar(&o.reflect, "reflect", false, "ask the service for the descriptors of --method by gRPC server reflection, once, before the load")
	f.StringVar(&o.bodyJSON, "body-json", "", "request as `JSON`, or @FILE; for gRPC it is encoded once and needs --protoset or --reflect")
	f.StringSliceVar(&c.SuccessStatus, "success-status", nil, "answers that count as delivered: HTTP statuses and ranges, as in 200-299,404 (default 200); or gRPC codes, as in OK,NOT_FOUND (default OK)")
	f.StringArrayVar(&o.successWhen, "success-when", nil, "gRPC: `CONDITION` on the message that ends the answer: FIELD (is set), FIELD=VALUE or FIELD!=VALUE, with a path as FIELD (end.exit_code=0); may be repeated, all must hold; needs --protoset or --reflect")
	f.StringVar(&o.idField, "id-field", "", "gRPC: `FIELD` of the request that gets an id of its own in each request, by path of names (needs --protoset or --reflect) or of numbers (a string field with a trailing 's', as in 2.1s)")
	f.StringVar(&o.ids.Token, "id-token", "", "`TEXT` in the body that the id's digits replace in each request")
	f.Uint64Var(&o.ids.First, "id-first", loadgen.DefaultFirstID, "first id of the first slot, from 1 up; all ids have as many digits")
	f.Uint64Var(&o.ids.Span, "id-span", loadgen.DefaultIDSpan, "ids of a slot, which no other slot uses, 1 to 1e15; a slot that has sent them all defers")
}

// apply puts what needs no service into the config.
func (o *requestOptions) apply(c *loadgen.Config) error {
	secure, err := o.tlsConfig()
	if err != nil {
		return err
	}
	c.TLS = secure
	if o.protoset != "" && o.reflect {
		return errors.New("--protoset and --reflect: want one of them")
	}
	if o.bodyJSON != "" {
		text, err := o.json()
		if err != nil {
			return err
		}
		c.Body = text
	}
	if o.idField == "" && o.ids.Token == "" {
		return nil
	}
	ids := o.ids
	if o.idField != "" {
		if numbers, text, ok := fieldNumbers(o.idField); ok {
			ids.Field, ids.Text = numbers, text
		} else if o.protoset == "" && !o.reflect {
			return fmt.Errorf("--id-field %q: names need --protoset or --reflect; or give the field's numbers, as in 2.1", o.idField)
		}
	}
	c.IDs = &ids
	return nil
}

func (o *requestOptions) json() ([]byte, error) {
	path, isFile := strings.CutPrefix(o.bodyJSON, "@")
	if !isFile {
		return []byte(o.bodyJSON), nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--body-json: %w", err)
	}
	return b, nil
}

// fieldNumbers reads a path of field numbers, as in 2.1 or 2.1s.
func fieldNumbers(path string) (numbers []protowire.Number, text, ok bool) {
	path, text = strings.CutSuffix(path, "s")
	for part := range strings.SplitSeq(path, ".") {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 1 {
			return nil, false, false
		}
		numbers = append(numbers, protowire.Number(n))
	}
	return numbers, text, true
}

func (o *requestOptions) tlsConfig() (*tls.Config, error) {
	if !o.tls && !o.tlsInsecure && o.tlsCA == "" && o.tlsCert == "" && o.tlsFor == "" {
		if o.tlsKey != "" {
			return nil, errors.New("--tls-key: want --tls-cert beside it")
		}
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.tlsFor, InsecureSkipVerify: o.tlsInsecure}
	if o.tlsCA != "" {
		pem, err := os.ReadFile(o.tlsCA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: no PEM certificate in it", o.tlsCA)
		}
	}
	if o.tlsCert != "" || o.tlsKey != "" {
		pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// describe finds the method's messages where a flag needs them, and encodes the
// request. The config is valid but for that.
func (o *requestOptions) describe(ctx context.Context, c *loadgen.Config) error {
	if o.protoset == "" && !o.reflect {
		switch {
		case len(o.successWhen) > 0:
			return errors.New("--success-when: needs --protoset or --reflect, to know the message's fields")
		case o.bodyJSON != "" && c.Protocol != loadgen.RestH1 && c.Protocol != loadgen.RestH2C:
			return errors.New("--body-json: needs --protoset or --reflect for gRPC; or give the encoded message by --body-file")
		}
		return nil
	}
	m, err := o.method(ctx, c)
	if err != nil {
		return err
	}
	if err := fits(c, m); err != nil {
		return err
	}
	if o.bodyJSON != "" {
		if c.Body, err = m.Encode(c.Body); err != nil {
			return fmt.Errorf("--body-json: %w", err)
		}
	} else if err := m.Check(c.Body); err != nil {
		return fmt.Errorf("the request's bytes (--body-file or --body): %w", err)
	}
	if len(o.successWhen) > 0 {
		if c.Accept, err = m.Predicate(o.successWhen); err != nil {
			return fmt.Errorf("--success-when: %w", err)
		}
	}
	if c.IDs != nil && o.idField != "" && len(c.IDs.Field) == 0 {
		if c.IDs.Field, c.IDs.Text, err = m.RequestField(o.idField); err != nil {
			return fmt.Errorf("--id-field: %w", err)
		}
	}
	return nil
}

func (o *requestOptions) method(ctx context.Context, c *loadgen.Config) (*schema.Method, error) {
	if o.protoset != "" {
		set, err := os.ReadFile(o.protoset)
		if err != nil {
			return nil, fmt.Errorf("--protoset: %w", err)
		}
		m, err := schema.FromProtoset(set, c.Method)
		if err != nil {
			return nil, fmt.Errorf("--protoset %s: %w", o.protoset, err)
		}
		return m, nil
	}
	secure := insecure.NewCredentials()
	if c.TLS != nil {
		secure = credentials.NewTLS(c.TLS)
	}
	cc, err := grpc.NewClient("passthrough:///"+c.Address, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	ctx, cancel := context.WithTimeout(ctx, max(c.ConnectTimeout, loadgen.DefaultConnectTimeout)+4*time.Second)
	defer cancel()
	for _, line := range c.Headers {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if strings.HasSuffix(name, "-bin") {
			raw, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, fmt.Errorf("--header %q: %w", line, err)
			}
			value = string(raw)
		}
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	m, err := schema.Reflect(ctx, cc, c.Method)
	if err != nil {
		return nil, fmt.Errorf("--reflect: %s at %s: %w", c.Method, c.Address, err)
	}
	return m, nil
}

// fits refuses a protocol that is not the method's.
func fits(c *loadgen.Config, m *schema.Method) error {
	client, server := m.Streams()
	want := map[[2]bool]loadgen.Protocol{
		{false, false}: loadgen.GRPCUnary, {false, true}: loadgen.GRPCServerStream, {true, true}: loadgen.GRPCStream,
	}[[2]bool{client, server}]
	switch want {
	case c.Protocol:
		return nil
	case "":
		return fmt.Errorf("--method %s: its client streams and its service answers once; no protocol drives that", c.Method)
	}
	return fmt.Errorf("--protocol %s: method %s wants %s", c.Protocol, c.Method, want)
}
