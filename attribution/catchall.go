package attribution

// A rule that takes every frame would empty `other` and hide what the rule file
// does not know. Whether a set of clauses is one cannot be read off its text
// (`.*`, `.+`, `*.*` all are), so it is tried on names of real programs that
// have nothing in common but their language. State is not looked at: all samples
// of a table share it.
var probes = [][]string{
	{ // Go
		"github.com/acme/widget.(*Gear).Turn",
		"gopkg.in/qux%2ev3.decode",
		"plugin/unnamed.init.0",
		"xyz.io/Lib.F[...]",
		"vendor/k8s.io/y.func1.2",
		"hash/crc32.ieeeCLMUL",
	},
	{ // Java
		"org.acme.Widget.turn",
		"java.util.zip.CRC32.update",
		"kotlin.Unit.<clinit>",
		"xyz.Lib$Inner.lambda$f$0",
		"clojure.zip$up.invoke",
	},
	{ // C++, Rust
		"acme::Widget::turn(int)",
		"std::__detail::_Mod_range_hashing::operator()(unsigned long) const",
		"<core::iter::Map<I,F> as Iterator>::fold",
		"operator new(unsigned long)",
		"(anonymous namespace)::f",
	},
	{ // C and assembly
		"widget_turn",
		"__GI___libc_write",
		"crc32z",
		"XML_Parse",
		"Lmain_loop",
	},
}

// isCatchAll reports whether the clauses together hold for every name of one
// language.
func isCatchAll(clauses []clause) bool {
	for _, names := range probes {
		if holdForAll(clauses, names) {
			return true
		}
	}
	return false
}

func holdForAll(clauses []clause, names []string) bool {
	for _, name := range names {
		s := subject{function: name, mapping: "/srv/probe.bin", threadGroup: "probe~*"}
		if !anyHolds(clauses, s) {
			return false
		}
	}
	return true
}

func anyHolds(clauses []clause, s subject) bool {
	for _, c := range clauses {
		c.states = nil
		if c.holds(s) {
			return true
		}
	}
	return false
}
