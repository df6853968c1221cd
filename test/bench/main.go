//go:build ignore

// Command bench is run and built by the name of this file: `go run ./test/bench/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/bench"

func main() { bench.Main() }
