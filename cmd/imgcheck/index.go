package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/indexes"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/policy"
	"github.com/imgcheck/imgcheck/pkg/scan"
	"github.com/imgcheck/imgcheck/pkg/signature"
	"github.com/imgcheck/imgcheck/pkg/source"
)

func indexCommand() *cli.Command {
	return &cli.Command{
		Name:      "index",
		Usage:     "read an image's layers, and store their indexes for others",
		UsageText: "imgcheck index [options] IMAGE",
		Description: "index reads the layers of an image as scan does. With --push it stores what a scan needs of them beside the\n" +
			"image, as a referrer in the registry, from where `imgcheck scan --index-from referrers` takes it and reads\n" +
			"no layer: some megabytes stand for gigabytes. --index-to REPO stores it in a repository of indexes, by\n" +
			"layer, for all images with these layers.\n\n" +
			"Whoever may write there decides what scans say that take indexes from there, unless they ask for a\n" +
			"signature: --sign-key signs the indexes, and scan --index-key takes no others.\n\n" +
			"Examples:\n" +
			"   imgcheck index --push ghcr.io/org/app:1.0\n" +
			"   imgcheck index --push --index-to ghcr.io/org/indexes ghcr.io/org/base:1.0\n" +
			"   imgcheck index --push --sign-key cosign.key ghcr.io/org/app:1.0\n" +
			"   imgcheck scan --index-from referrers ghcr.io/org/app:1.0",
		Flags: fromEnvironment(slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "push", Usage: "store the indexes: beside the image, or where --index-to says"},
		}, indexToFlags(), imageFlags())),
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() == 0:
				return errors.New("index needs an image: see `imgcheck index --help`")
			case c.NArg() > 1:
				return fmt.Errorf("index takes one image, and %q is another argument", c.Args().Get(1))
			}
			o, err := imageOptions(c)
			if err != nil {
				return err
			}
			if o.Cache == nil {
				return errors.New("index keeps what it reads in the cache, and there is none: leave out --no-cache")
			}
			return makeIndex(c, o)
		},
	}
}

// makeIndex reads the layers of an image, says how large their indexes are, and stores them
// with --push.
func makeIndex(c *cli.Context, o layers.Options) error {
	to, err := indexPlaceOf(c)
	if err != nil {
		return err
	}
	shown := watch(c, &o)
	img, err := scan.Open(c.Context, c.Args().First(), scan.Options{Layers: o})
	if err != nil {
		shown.done()
		return err
	}
	defer img.Close()
	_, err = img.Index(c.Context)
	shown.done()
	if err != nil {
		return err
	}
	if c.Bool("push") {
		done, err := indexes.Push(c.Context, img, to.place, to.by, source.Options{Insecure: o.Insecure})
		if err != nil {
			return err
		}
		fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+oneLine(storedText(done)))
		_, err = fmt.Fprintln(c.App.Writer, done.At)
		return err
	}
	var stored, index int64
	for i, l := range img.Layers {
		stored += l.Size
		index += int64(len(img.StoredIndex(i)))
	}
	_, err = fmt.Fprintf(c.App.Writer, "%d layers of %s, their indexes have %s: --push stores them\n", len(img.Layers), size.Text(stored), size.Text(index))
	return err
}

// storedText returns what a push has done, in words.
func storedText(p *indexes.Pushed) string {
	text := fmt.Sprintf("%d indexes of %s stored at %s", p.New, size.Text(p.Bytes), p.At)
	switch {
	case p.New == 0:
		text = fmt.Sprintf("%s has all %d indexes", p.At, p.There)
	case p.There > 0:
		text += fmt.Sprintf(", %d were there", p.There)
	}
	if p.Lack > 0 {
		text += fmt.Sprintf(", %d layers were not read here", p.Lack)
	}
	return text
}

// indexFlags returns the flags of the commands that take indexes from others.
func indexFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "index-from", Usage: "read no layer whose index is at `PLACE`: referrers (of the image, in its own repository), a repository whose writers you trust, or none"},
		&cli.StringFlag{Name: "index-key", Usage: "with --index-from, use only indexes that a key of `FILE` has signed: a public key of cosign or openssl"},
		&cli.BoolFlag{Name: "verify-index", Usage: "with --index-from, read the layers all the same, and fail if an index is not its layer's"},
	}
}

// indexToFlags returns the flags of the commands that store indexes.
func indexToFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "index-to", Usage: "store the indexes of layers that were read here at `PLACE`: referrers (of the image), or a repository; auto is the referrers where a login for the registry may push"},
		&cli.StringFlag{Name: "sign-key", Usage: "sign the indexes that are stored by the private key of `FILE`: of cosign (its password is COSIGN_PASSWORD) or openssl"},
	}
}

// placeOf returns the place that a flag names; the referrers without it.
func placeOf(c *cli.Context, flag string) (indexes.Place, error) {
	s := c.String(flag)
	if s == "" {
		s = indexes.Referrers
	}
	p, err := indexes.ParsePlace(s, c.Bool("insecure"))
	if err != nil {
		return p, fmt.Errorf("--%s: %w", flag, err)
	}
	return p, nil
}

// checkIndexFlags returns an error for flags that are for the indexes of --index-from if neither that
// nor the policy says from where; p may be nil.
func checkIndexFlags(c *cli.Context, p *policy.Policy) error {
	said := c.String("index-from") != ""
	if p != nil {
		said = said || p.Indexes.From != "" || slices.ContainsFunc(p.Images, func(im policy.Image) bool { return im.Indexes.From != "" })
	}
	switch {
	case said:
	case c.Bool("verify-index"):
		return errors.New("--verify-index compares the indexes of --index-from: say that, too")
	case typed(c, "index-key"):
		return errors.New("--index-key is for the indexes of --index-from: say that, too")
	}
	return nil
}

// indexesFrom returns the indexes of --index-from, or else those of a policy for an image; nil without
// either. Of the policy's keys one must have signed also those of the flag, unless --index-key has
// others. Images with one place and the same keys share a reader.
func indexesFrom(c *cli.Context, x policy.Indexes) (*layers.Indexes, error) {
	all, ok := c.Context.Value(readersKey{}).(readers)
	if !ok {
		return nil, nil // the command takes none
	}
	from, flag := c.String("index-from"), "--index-from"
	if from == "" {
		from, flag = x.From, "indexes of the policy, from"
	}
	if from == "" || from == policy.NoIndexes {
		return nil, nil
	}
	p, err := indexes.ParsePlace(from, c.Bool("insecure"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	keys, err := indexKeys(c.String("index-key"))
	if err == nil && keys == nil {
		keys, err = keysOf(x.Keys)
	}
	if err != nil {
		return nil, err
	}
	id := p.String()
	if keys != nil {
		id += " " + keys.String()
	}
	r := all[id]
	if r == nil {
		r = indexes.NewReader(p, keys, c.Bool("verify-index"), source.Options{Insecure: c.Bool("insecure")})
		all[id] = r
	}
	return r.Indexes(), nil
}

// readers are those of a command, by their place and keys.
type readers map[string]*indexes.Reader

type readersKey struct{}

// tellIndexes lets the commands that take indexes from others say at their end which they have
// used and refused, and fail if one was not its layer's.
func tellIndexes(commands []*cli.Command) {
	for _, cmd := range commands {
		if !slices.ContainsFunc(cmd.Flags, func(f cli.Flag) bool { return f.Names()[0] == "index-from" }) {
			continue
		}
		do := cmd.Action
		cmd.Action = func(c *cli.Context) error {
			all := readers{}
			c.Context = context.WithValue(c.Context, readersKey{}, all)
			err := do(c)
			for _, id := range slices.Sorted(maps.Keys(all)) {
				r := all[id]
				for _, line := range r.Lines() {
					fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+bounded(oneLine(line)))
				}
				if wrong := r.Err(); wrong != nil && (err == nil || errors.Is(err, errFindings)) {
					err = wrong
				}
			}
			return err
		}
	}
}

// typed reports whether a flag is on the command line, and not only in the variable that stands for
// it, which a job may set for other commands.
func typed(c *cli.Context, flag string) bool {
	s := c.String(flag)
	return s != "" && s != os.Getenv("IMGCHECK_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
}

// maxKeyFile bounds a file of keys, in bytes.
const maxKeyFile = 1 << 20

// indexKeys returns the public keys of --index-key, which has a file, or the keys themselves in one
// line. It returns nil without the flag.
func indexKeys(flag string) (*signature.Keys, error) {
	if flag == "" {
		return nil, nil
	}
	if keys, err := signature.ParseKeys(flag); err == nil {
		return keys, nil
	}
	text, err := readKey(flag)
	if err != nil {
		return nil, fmt.Errorf("--index-key: %w", err)
	}
	keys, err := signature.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--index-key %s: %w", flag, err)
	}
	return keys, nil
}

// keysOf returns the public keys that a policy names, or nil if it names none.
func keysOf(list []policy.Key) (*signature.Keys, error) {
	var lines []string
	for _, k := range list {
		text, err := k.Text, error(nil)
		if k.Path != "" {
			text, err = readKey(k.Path)
		}
		var keys *signature.Keys
		if err == nil {
			keys, err = signature.ParseKeys(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: indexes: keys: %w", k.File, k.Line, err)
		}
		lines = append(lines, keys.String())
	}
	if lines == nil {
		return nil, nil
	}
	return signature.ParseKeys(strings.Join(lines, ","))
}

// readKey reads a file of keys.
func readKey(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", source.PathError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return string(b), err
}

// signerOf returns the private key of --sign-key, which has a file, or the key itself, as CI systems
// have it in a variable. It returns nil without the flag.
func signerOf(c *cli.Context) (*signature.Signer, error) {
	flag := c.String("sign-key")
	if flag == "" {
		return nil, nil
	}
	text := flag
	if strings.Contains(flag, "-----BEGIN") {
		flag = "the key"
	} else {
		var err error
		if text, err = readKey(flag); err != nil {
			return nil, fmt.Errorf("--sign-key: %w", err)
		}
	}
	s, err := signature.ParseSigner(text, os.Getenv("COSIGN_PASSWORD"))
	if err != nil {
		return nil, fmt.Errorf("--sign-key %s: %w", flag, err)
	}
	return s, nil
}

// autoIndexes is the place of --index-to that is the referrers of the images for whose registry there
// is a login. If that may not push, nothing is stored and nothing is said.
const autoIndexes = "auto"

// indexStore stores the indexes of scanned images at a place. A nil one stores nothing.
type indexStore struct {
	place indexes.Place
	by    *signature.Signer // or nil
	auto  bool              // the place is autoIndexes
}

// indexPlaceOf returns the store of --index-to and --sign-key; the referrers without the former.
func indexPlaceOf(c *cli.Context) (*indexStore, error) {
	p, err := placeOf(c, "index-to")
	if err != nil {
		return nil, err
	}
	by, err := signerOf(c)
	return &indexStore{place: p, by: by}, err
}

// indexStoreOf returns the store of --index-to, or nil.
func indexStoreOf(c *cli.Context, cache *layers.Cache) (*indexStore, error) {
	if c.String("index-to") == "" {
		if typed(c, "sign-key") {
			return nil, errors.New("--sign-key signs what --index-to stores: say that, too")
		}
		return nil, nil
	}
	auto := c.String("index-to") == autoIndexes
	switch {
	case cache == nil && auto:
		return nil, nil
	case cache == nil:
		return nil, errors.New("--index-to stores what is in the cache, and there is none: leave out --no-cache")
	case auto:
		by, err := signerOf(c)
		return &indexStore{by: by, auto: true}, err
	}
	return indexPlaceOf(c)
}

// store stores the indexes of an image that was scanned. The scan is done, so that an error is a
// line only.
func (s *indexStore) store(c *cli.Context, ref string, o scan.Options) {
	if s == nil {
		return
	}
	say := func(text string) { fmt.Fprintln(c.App.ErrWriter, "imgcheck: "+bounded(oneLine(text))) }
	if s.auto && !source.HasLogin(c.Context, ref, o.Layers.Insecure) {
		if c.Bool("verbose") {
			say(ref + ": no index is stored: it is not in a registry for which there is a login")
		}
		return
	}
	img, err := scan.Open(c.Context, ref, o)
	var done *indexes.Pushed
	if err == nil {
		defer img.Close()
		done, err = indexes.Push(c.Context, img, s.place, s.by, source.Options{Insecure: o.Layers.Insecure})
	}
	switch {
	case err == nil:
		say(ref + ": " + storedText(done))
	case !s.auto || c.Bool("verbose"):
		say("no index is stored: " + err.Error())
	}
}
