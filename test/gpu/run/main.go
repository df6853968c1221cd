//go:build ignore

// Command run is run by the name of this file, `go run ./test/gpu/run/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/gpu/run"

func main() { run.Main() }
