//go:build linux

package bpf

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckRelease(t *testing.T) {
	for _, release := range []string{"6.1.0-57-cloud-arm64", "6.12.117+deb12-cloud-arm64", "7.0-rc1", "10.2", "6.1"} {
		if err := CheckRelease(release); err != nil {
			t.Errorf("%s: %v", release, err)
		}
	}
	for _, release := range []string{"5.10.0-32-cloud-arm64", "6.0.12", "", "6", "6.x", "six.one", "custom"} {
		var missing *MissingError
		if err := CheckRelease(release); !errors.As(err, &missing) || !strings.Contains(err.Error(), "kernel 6.1 or newer") {
			t.Errorf("%q: %v", release, err)
		}
	}
	if err := checkKernel(); err != nil {
		t.Errorf("this machine's: %v", err)
	}
}
