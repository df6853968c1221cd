//go:build ignore

// Command truth is run by the name of this file, `go run ./test/real/truth/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/truth"

func main() { truth.Main() }
