// Package echov1 is the generated code of echo.proto: the Echo service of the
// gRPC arms and its one message. `make generate` rewrites it.
package echov1
