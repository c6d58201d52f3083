package org.rungprof.arm;

import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.net.InetSocketAddress;
import rung.arms.echo.v1.EchoGrpc;
import rung.arms.echo.v1.EchoOuterClass.Hello;

/** grpc-java on Netty with its defaults, but for the executor: no bound on streams. */
final class GrpcArm {
    private GrpcArm() {}

    static InetSocketAddress start(InetSocketAddress listen, Executors executor) throws IOException {
        NettyServerBuilder builder = NettyServerBuilder.forAddress(listen).addService(new Echo());
        switch (executor) {
            case DIRECT -> builder.directExecutor();
            case VT -> builder.executor(Executors.virtual());
            case POOL -> { } // grpc-java's own, which grows with the load
        }
        Server server = builder.build().start();
        return (InetSocketAddress) server.getListenSockets().get(0);
    }

    /** The codec decodes what comes and encodes what goes; the messages are the same. */
    static final class Echo extends EchoGrpc.EchoImplBase {
        @Override
        public void sayHello(Hello request, StreamObserver<Hello> reply) {
            reply.onNext(request);
            reply.onCompleted();
        }

        @Override
        public StreamObserver<Hello> chat(StreamObserver<Hello> reply) {
            ServerCallStreamObserver<Hello> call = (ServerCallStreamObserver<Hello>) reply;
            return new StreamObserver<>() {
                @Override
                public void onNext(Hello message) {
                    if (!call.isCancelled()) {
                        call.onNext(message);
                    }
                }

                @Override
                public void onError(Throwable cause) {
                    // The client went away: there is nobody to answer.
                }

                @Override
                public void onCompleted() {
                    call.onCompleted();
                }
            };
        }
    }
}
