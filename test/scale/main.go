//go:build ignore

// Command scale is run and built by the name of this file: `go run ./test/scale/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/scale"

func main() { scale.Main() }
