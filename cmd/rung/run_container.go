//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rungprof/rung/campaign"
)

// engineTimeout bounds each call of a container engine but the run itself.
const engineTimeout = 20 * time.Second

// engineOf finds a container engine's program.
func (s *liveStage) engineOf(c *campaign.Container) (string, error) {
	name := c.Engine
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(s.base, name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no container engine %s on this host; install it, name another (container: {engine: podman}), or start the arm by a command: %w", c.Engine, err)
	}
	return path, nil
}

// engine runs one command of the engine and gives its output.
func engine(path string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// startContainer runs the container in the foreground of the engine's client, so
// that its output is the client's.
func (a *liveArm) startContainer(said chan<- string) error {
	arm := a.ladder.Setting.Arm
	path, err := a.stage.engineOf(arm.Container)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%03d", a.stage.token, a.ladder.Ordinal)
	argv := append([]string{path, "run", "--rm", "--name", name}, arm.Container.Args...)
	a.child, err = startChild(childSpec{
		name: "arm " + arm.Name, argv: argv, dir: a.stage.base, log: a.log(), line: a.watchLog(said),
		stop: signalOf("TERM"), grace: 2 * time.Second,
	})
	if err != nil {
		return &upError{err}
	}
	a.container = name
	return nil
}

func (a *liveArm) engine(args ...string) (string, error) {
	path, err := a.stage.engineOf(a.ladder.Setting.Arm.Container)
	if err != nil {
		return "", err
	}
	return engine(path, args...)
}

func (a *liveArm) inspectPid() int {
	text, err := a.engine("inspect", "--format", "{{.State.Pid}}", a.container)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(text)
	if err != nil || pid < 2 {
		return 0
	}
	return pid
}

// inspectIdentity is the container's id, its process and when it was started.
func (a *liveArm) inspectIdentity() string {
	text, err := a.engine("inspect", "--format", "{{.Id}} {{.State.Pid}} {{.State.StartedAt}}", a.container)
	if err != nil {
		return ""
	}
	return text
}

func (a *liveArm) stopContainer() {
	stop := a.ladder.Setting.Arm.Stop
	// An engine that knows the container no more answers with an error: it is gone.
	_, _ = a.engine("kill", "--signal", "SIG"+stop.Signal, a.container)
	select {
	case <-a.child.exited:
	case <-time.After(time.Duration(stop.Grace)):
	}
	_, _ = a.engine("rm", "--force", a.container)
}

// imageOf is the digest of a container's image: the first argument that the
// engine knows as one.
func imageOf(path string, args []string) string {
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			continue
		}
		if id, err := engine(path, "image", "inspect", "--format", "{{.Id}}", arg); err == nil && id != "" {
			return id
		}
	}
	return ""
}

// removeContainers takes away what a killed session left behind.
func removeContainers(path, token string) {
	ids, err := engine(path, "ps", "--all", "--quiet", "--filter", "name="+token)
	if err != nil {
		return
	}
	for _, id := range strings.Fields(ids) {
		_, _ = engine(path, "rm", "--force", id)
	}
}
