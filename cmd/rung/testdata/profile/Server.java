import com.sun.net.httpserver.HttpServer;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URL;
import java.security.MessageDigest;
import java.util.ArrayDeque;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A web server and its own closed-loop clients. Four pool threads serve; two
 * clients keep one request each in flight. A request hashes some bytes, holds a
 * lock, and leaves garbage. One thread sits in accept, one sleeps. Runs until it
 * is ended, or for the seconds given as argument, and prints a line when it serves.
 */
public class Server {
    static final ReentrantLock LOCK = new ReentrantLock();
    static final ArrayDeque<byte[]> KEPT = new ArrayDeque<>();

    static byte[] work(int n) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] data = new byte[8 << 10];
        for (int i = 0; i < 8; i++) {
            data[i] = (byte) (n >> i);
            data = java.util.Arrays.copyOf(digest.digest(data), 8 << 10);
        }
        LOCK.lock();
        try {
            KEPT.add(data);
            if (KEPT.size() > 2000) {
                KEPT.remove();
            }
        } finally {
            LOCK.unlock();
        }
        return data;
    }

    static void client(int port) {
        for (int n = 0; ; n++) {
            try {
                URL url = URI.create("http://127.0.0.1:" + port + "/?" + n).toURL();
                HttpURLConnection c = (HttpURLConnection) url.openConnection();
                try (InputStream in = c.getInputStream()) {
                    in.readAllBytes();
                }
                Thread.sleep(1);
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        HttpServer server = HttpServer.create(new InetSocketAddress(loopback, 0), 16);
        server.createContext("/", exchange -> {
            try {
                byte[] body = work(exchange.getRequestURI().getQuery().hashCode());
                exchange.sendResponseHeaders(200, body.length);
                exchange.getResponseBody().write(body);
            } catch (Exception e) {
                throw new RuntimeException(e);
            } finally {
                exchange.close();
            }
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        for (int i = 0; i < 2; i++) {
            Thread t = new Thread(() -> client(server.getAddress().getPort()), "client-" + i);
            t.setDaemon(true);
            t.start();
        }
        java.net.ServerSocket listener = new java.net.ServerSocket(0, 1, loopback);
        Thread acceptor = new Thread(() -> {
            try {
                listener.accept();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, "acceptor");
        acceptor.setDaemon(true);
        acceptor.start();
        System.out.println("serving");
        if (args.length > 0) {
            Thread.sleep(1000L * Integer.parseInt(args[0]));
            System.exit(0);
        }
    }
}
