package debian

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSources(t *testing.T) {
	uris := `'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0 
'http://mirror.example/debian/dists/bookworm-updates/InRelease' mirror.example_debian_dists_bookworm-updates_InRelease 0 
'http://mirror.example/debian-security/dists/bookworm-security/InRelease' x 0 
'https://deb.vendor.example/node_20.x/dists/nodistro/InRelease' deb.vendor.example_node%5f20.x_dists_nodistro_InRelease 0 
'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' mirror.example_debian_dists_bookworm_main_binary-amd64_Packages 0 
`
	got, err := sources(uris, []string{"trixie-backports", "bullseye-security", "bookworm"})
	if err != nil {
		t.Fatal(err)
	}
	want := []source{
		{"http://mirror.example/debian", "bookworm"},
		{"http://mirror.example/debian", "bookworm-updates"},
		{"http://mirror.example/debian-security", "bookworm-security"},
		{"http://mirror.example/debian", "trixie-backports"},
		{"http://mirror.example/debian-security", "bullseye-security"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(source{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = sources("'http://mirror.example/debian/dists/trixie/InRelease' x 0", []string{"trixie-security"})
	if err != nil || got[1].site != "http://mirror.example/debian-security" {
		t.Errorf("security archive beside the main one: %v, %v", got, err)
	}
	for _, none := range []string{"", "'http://archive.example/ubuntu/dists/noble/InRelease' x 0 \n", "'a' b\n", "'"} {
		if got, err := sources(none, nil); err == nil || !strings.Contains(err.Error(), "no Debian archive") {
			t.Errorf("sources(%q) = %v, %v", none, got, err)
		}
	}
}

func TestConfigKeepsHowTheMachineDownloads(t *testing.T) {
	dump := `Acquire::http::Proxy "http://proxy.example:3128";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "true";
APT::Architecture "amd64";
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";
Dir::Cache::pkgcache "";
`
	got := apt{dir: "/cache/apt", arch: "arm64"}.config(dump)
	for text, want := range map[string]bool{
		"Acquire::http::Proxy \"http://proxy.example:3128\";\n": true,
		"APT::Architecture \"arm64\";\n":                        true,
		"Dir::State \"/cache/apt\";\n":                          true,
		"DEP-11":                                                false,
		"amd64":                                                 false,
		"Post-Invoke":                                           false,
		"pkgcache":                                              false,
	} {
		if strings.Contains(got, text) != want {
			t.Errorf("%q in the configuration: %v, want %v\n%s", text, !want, want, got)
		}
	}
}

func FuzzSources(f *testing.F) {
	f.Add("'http://mirror.example/debian/dists/bookworm/InRelease' x 0 \n")
	f.Fuzz(func(t *testing.T, uris string) {
		list, err := sources(uris, []string{"sid"})
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%v, %v", list, err)
		}
	})
}
