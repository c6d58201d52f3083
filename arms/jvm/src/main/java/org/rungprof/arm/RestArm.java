package org.rungprof.arm;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.eclipse.jetty.http.HttpHeader;
import org.eclipse.jetty.http2.RateControl;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** Jetty, with Jackson between bytes and {@link Hello}. */
final class RestArm {
    /** Requests in flight on one HTTP/2 connection: as many as the Go arm allows. */
    private static final int MAX_STREAMS = 1024;
    /** A longer body is refused, as by the Go arms. */
    private static final int MAX_BODY = 64 << 10;

    private RestArm() {}

    static InetSocketAddress start(boolean http2, InetSocketAddress listen, Executors executor) throws Exception {
        QueuedThreadPool threads = new QueuedThreadPool();
        threads.setName("jetty");
        if (executor == Executors.VT) {
            threads.setVirtualThreadsExecutor(Executors.virtual());
        }
        Server server = new Server(threads);
        HttpConfiguration config = new HttpConfiguration();
        config.setSendServerVersion(false);
        ServerConnector connector;
        if (http2) {
            HTTP2CServerConnectionFactory h2c = new HTTP2CServerConnectionFactory(config);
            h2c.setMaxConcurrentStreams(MAX_STREAMS);
            h2c.setRateControlFactory(new RateControl.Factory() {}); // none: a load generator is no attacker
            connector = new ServerConnector(server, h2c);
        } else {
            connector = new ServerConnector(server, new HttpConnectionFactory(config));
        }
        connector.setHost(listen.getHostString());
        connector.setPort(listen.getPort());
        connector.setIdleTimeout(0); // drivers keep connections from step to step
        connector.setAcceptQueueSize(1024);
        server.addConnector(connector);
        server.setHandler(new Echo());
        server.start();
        return new InetSocketAddress(listen.getHostString(), connector.getLocalPort());
    }

    static final class Echo extends Handler.Abstract {
        private final ObjectMapper mapper = new ObjectMapper();

        @Override
        public boolean handle(Request request, Response response, Callback callback) throws IOException {
            switch (request.getMethod() + " " + Request.getPathInContext(request)) {
                case "POST /echo" -> echo(request, response, callback);
                case "GET /healthz" -> answer(response, 200, "text/plain", "ok\n".getBytes(StandardCharsets.UTF_8), callback);
                default -> answer(response, 404, "text/plain", "not found\n".getBytes(StandardCharsets.UTF_8), callback);
            }
            return true;
        }

        private void echo(Request request, Response response, Callback callback) throws IOException {
            byte[] body;
            try (var in = Content.Source.asInputStream(request)) {
                body = in.readNBytes(MAX_BODY + 1);
            }
            if (body.length > MAX_BODY) {
                answer(response, 413, "text/plain", "the body is too large\n".getBytes(StandardCharsets.UTF_8), callback);
                return;
            }
            byte[] reply;
            try {
                reply = mapper.writeValueAsBytes(mapper.readValue(body, Hello.class));
            } catch (JsonProcessingException e) {
                answer(response, 400, "text/plain", (e.getOriginalMessage() + "\n").getBytes(StandardCharsets.UTF_8), callback);
                return;
            }
            answer(response, 200, "application/json", reply, callback);
        }

        private static void answer(Response response, int status, String type, byte[] body, Callback callback) {
            response.setStatus(status);
            response.getHeaders().put(HttpHeader.CONTENT_TYPE, type);
            response.getHeaders().put(HttpHeader.CONTENT_LENGTH, body.length);
            response.write(true, ByteBuffer.wrap(body), callback);
        }
    }
}
