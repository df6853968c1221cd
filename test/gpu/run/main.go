//go:build ignore

// Command run is run and built by the name of this file: `go run ./test/gpu/run/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/gpu/run"

func main() { run.Main() }
