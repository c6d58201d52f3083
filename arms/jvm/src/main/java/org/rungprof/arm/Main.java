package org.rungprof.arm;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * The JVM arms: services whose work is that of the Go arms of the same names.
 *
 * <pre>
 *   rest-h1     JSON over HTTP/1.1, Jetty and Jackson: POST /echo, GET /healthz
 *   rest-h2c    the same over cleartext HTTP/2 with prior knowledge
 *   grpc        protobuf, grpc-java on Netty: Echo.SayHello and Echo.Chat
 * </pre>
 *
 * The environment's EXECUTOR says on which threads requests are answered: direct (of
 * gRPC: the event loop), pool (the library's own pool), vt (a virtual thread each, from
 * JDK 21 on). It prints "RUNG-ARM ready HOST:PORT" once it serves.
 */
public final class Main {
    static final String USAGE = "usage: java -jar rung-arm-jvm.jar --mode rest-h1|rest-h2c|grpc --listen HOST:PORT";

    private Main() {}

    public static void main(String[] args) throws Exception {
        try {
            run(args, System.getenv());
        } catch (IllegalArgumentException e) {
            System.err.println("rung-arm-jvm: " + e.getMessage());
            System.err.println(USAGE);
            System.exit(2);
        }
    }

    static void run(String[] args, Map<String, String> env) throws Exception {
        Map<String, String> flags = flags(args);
        String mode = required(flags, "mode");
        InetSocketAddress listen = address(required(flags, "listen"));
        String executor = env.getOrDefault("EXECUTOR", "");
        InetSocketAddress at;
        switch (mode) {
            case "rest-h1", "rest-h2c" -> at = RestArm.start(mode.equals("rest-h2c"), listen, Executors.of(executor, "pool", List.of("pool", "vt")));
            case "grpc" -> at = GrpcArm.start(listen, Executors.of(executor, "pool", List.of("direct", "pool", "vt")));
            default -> throw new IllegalArgumentException("unknown mode " + mode + ": it is one of rest-h1, rest-h2c, grpc");
        }
        System.out.println("RUNG-ARM ready " + at.getHostString() + ":" + at.getPort());
        Thread.currentThread().join(); // gRPC's threads are all daemons
    }

    /** Reads --NAME VALUE and --NAME=VALUE. */
    static Map<String, String> flags(String[] args) {
        Map<String, String> flags = new TreeMap<>();
        for (int i = 0; i < args.length; i++) {
            String name = args[i];
            String value = null;
            int equals = name.indexOf('=');
            if (equals > 0) {
                value = name.substring(equals + 1);
                name = name.substring(0, equals);
            }
            if (!name.equals("--mode") && !name.equals("--listen")) {
                throw new IllegalArgumentException("unknown argument " + name);
            }
            if (value == null && ++i == args.length) {
                throw new IllegalArgumentException(name + " wants a value");
            }
            flags.put(name.substring(2), value == null ? args[i] : value);
        }
        return flags;
    }

    static String required(Map<String, String> flags, String name) {
        String value = flags.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    static InetSocketAddress address(String text) {
        int colon = text.lastIndexOf(':');
        try {
            return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
        } catch (IndexOutOfBoundsException | IllegalArgumentException e) {
            throw new IllegalArgumentException("--listen " + text + ": want HOST:PORT, for example 127.0.0.1:0");
        }
    }
}
