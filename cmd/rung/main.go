//go:build linux

// Command rung says, for every step of a load ladder, where each request's time
// goes, on the CPU and off it, and what stops the service from going faster.
//
// It is one static binary: the subcommands run in processes of their own and
// `rung demo` drives them all.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	endings := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup asks
		endings = append(endings, syscall.SIGHUP) // the terminal was closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), endings...)
	// The first signal asks for an orderly end; with the handler gone, a second
	// one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(execute(ctx, newRootCommand(), os.Args[1:], os.Stdout, os.Stderr))
}
