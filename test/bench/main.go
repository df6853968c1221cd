//go:build ignore

// Command bench is run by the name of this file, `go run ./test/bench/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/bench"

func main() { bench.Main() }
