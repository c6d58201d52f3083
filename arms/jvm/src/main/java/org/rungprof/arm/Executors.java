package org.rungprof.arm;

import java.util.List;
import java.util.concurrent.Executor;

/** On which threads an arm answers. */
enum Executors {
    DIRECT, POOL, VT;

    /** Reads EXECUTOR; "" is the default given. */
    static Executors of(String text, String otherwise, List<String> allowed) {
        String name = text.isEmpty() ? otherwise : text;
        if (!allowed.contains(name)) {
            throw new IllegalArgumentException("EXECUTOR=" + name + ": want " + String.join(", ", allowed));
        }
        return valueOf(name.toUpperCase(java.util.Locale.ROOT));
    }

    /** A virtual thread for each task. The jar is compiled for JDK 17, which has none. */
    static Executor virtual() {
        try {
            return (Executor) java.util.concurrent.Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException("EXECUTOR=vt: JDK " + Runtime.version().feature() + " has no virtual threads; use 21 or newer");
        }
    }
}
