// Package rules embeds the packs, imgcheck's knowledge as data: rules, GPU libraries, the
// driver's libraries, frameworks and their loads. Package packs reads them, and its types
// define which keys a pack may have.
package rules

import "embed"

// FS holds the packs, *.yaml, in provide/ the tables that package provide reads, and
// in startup/ those of package startup, in targets/ those of package targets, in size/ the classes of package size,
// in slim/ the terms of package slim, in dockerlint/
// the rules and tables of package dockerlint, and in reports/ the texts of threads from which package explain learns.
//
//go:embed *.yaml provide/*.yaml startup/*.yaml targets/*.yaml dockerlint/*.yaml dockerlint/tables/*.yaml size/*.yaml slim/*.yaml reports/*.jsonl reports/*.log
var FS embed.FS
