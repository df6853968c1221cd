//go:build ignore

// Command truth is run and built by the name of this file: `go run ./test/real/truth/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/truth"

func main() { truth.Main() }
