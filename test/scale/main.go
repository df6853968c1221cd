//go:build ignore

// Command scale is run by the name of this file, `go run ./test/scale/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/scale"

func main() { scale.Main() }
