//go:build linux

package main

import "github.com/rungprof/rung/internal/truth/suite"

// states holds the account against workloads whose answer is known: all figures
// of package truth.
func (b *bench) states() error {
	figures, err := suite.Run(b.ctx, suite.Options{Short: b.quick})
	for _, f := range figures {
		b.judge(f.Name, f.Value, f.Unit, f.Goal, f.OK, f.Detail)
	}
	return err
}
