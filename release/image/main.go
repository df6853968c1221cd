//go:build ignore

// Command image is run by the name of this file, `go run ./release/image/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/release/image"

func main() { image.Main() }
