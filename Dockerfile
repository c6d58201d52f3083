# The image of the node agent and of `rung demo`: one static binary, no shell.
#
#   docker build -t rung .
#   docker run --rm --privileged --pid=host --cgroupns=host \
#     -v /sys/fs/cgroup:/sys/fs/cgroup -v "$PWD:/out" rung demo --output /out/demo
#
# The BPF objects are committed, so no clang is needed here.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS=linux TARGETARCH VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /rung ./cmd/rung

FROM scratch
COPY --from=build /src/LICENSE /LICENSE
COPY --from=build /src/LICENSES /LICENSES
COPY --from=build /rung /rung
# Empty: the base has no /tmp, and the demo puts its socket there.
WORKDIR /tmp
WORKDIR /
ENTRYPOINT ["/rung"]
CMD ["check"]
