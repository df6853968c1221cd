package layers

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/elfdeps"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Cache stores indexes of layers, and documents made of images, in a directory. Each is
// a file that is written under another name and then renamed, so that any number of
// processes may share the cache. A file that cannot be read counts as absent.
//
// A file decides a verdict, so it ends with a code by the user's key, which is not in the
// cache ([trust.UserKey]). A file of another writer counts as absent, also in a cache that
// was restored as a whole.
//
// A nil Cache stores nothing.
type Cache struct {
	// Dir is the directory. Its files are read and written only by a cache that
	// [OpenCache] has returned; others list and remove them.
	Dir string
	// Max bounds the bytes of all files. Beyond it, the least recently used are
	// removed.
	Max int64

	key trust.Key
	now func() time.Time // in tests
}

// DefaultCacheMax is the usual bound of a cache, in bytes: some hundred images.
const DefaultCacheMax = 2 << 30

// DefaultCacheDir returns IMGCHECK_CACHE, else the directory imgcheck of the user's
// caches ([os.UserCacheDir]).
func DefaultCacheDir() (string, error) {
	if dir := os.Getenv("IMGCHECK_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a directory for the cache: %w: set IMGCHECK_CACHE", err)
	}
	return filepath.Join(dir, "imgcheck"), nil
}

// ErrNoKey is the error of a cache whose key cannot be read or made. Without it no file of
// the cache could be believed.
var ErrNoKey = errors.New("the key of the cache")

// OpenCache returns the cache in a directory, which it makes if there is none, for this
// user alone. A directory of another user is an error. most is Max.
func OpenCache(dir string, most int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the cache: %w", source.PathError(err))
	}
	st, err := os.Stat(dir)
	if err == nil {
		err = trust.Owner(st)
	}
	if err != nil {
		return nil, fmt.Errorf("the cache: %w", source.PathError(&fs.PathError{Op: "open", Path: dir, Err: err}))
	}
	key, err := trust.UserKey()
	if err != nil {
		return nil, fmt.Errorf("%w: %w: set %s", ErrNoKey, source.PathError(err), trust.KeyVariable)
	}
	return &Cache{Dir: dir, Max: most, key: key}, nil
}

// maxDocument bounds a document, in bytes.
const maxDocument = 64 << 20

// Names of the cache's files: the SHA-256 of their key, and their kind. Files with other
// names are not the cache's.
const (
	layerFile    = ".layer"
	documentFile = ".document"
	newFile      = ".imgcheck-new-" // and a number: one that is being written
)

var cacheFile = regexp.MustCompile(`^([0-9a-f]{64}\.(layer|document)|\.imgcheck-new-[0-9]+)$`)

func (c *Cache) file(of, kind string) string {
	return filepath.Join(c.Dir, fmt.Sprintf("%x", sha256.Sum256([]byte(of)))+kind)
}

// layerName returns the key of a stored layer. It names everything that the index depends
// on: the bytes of the layer, the versions of their readers, and the choice of kept files.
func layerName(digest, keepID string) string {
	return fmt.Sprintf("layer %d.%d of %s, kept %s", indexVersion, elfdeps.CodecVersion, digest, keepID)
}

// Layer returns the stored index of the layer whose blob has a digest.
func (c *Cache) Layer(digest, keepID string) (*Layer, bool) {
	return c.layer(digest, keepID, nil)
}

// layer does as Layer, and counts the layer's bytes in all. A layer that exceeds the
// limit of all counts as absent: reading it then returns the error.
func (c *Cache) layer(digest, keepID string, all *ledger) (*Layer, bool) {
	return c.named(all, layerName(digest, keepID))
}

// received returns the index of a layer that was received from those whom by names.
func (c *Cache) received(digest, keepID, by string, all *ledger) (*Layer, bool) {
	return c.named(all, layerName(digest, keepID+by), layerName(digest, keepID))
}

// named returns the layer that the first of its names finds.
func (c *Cache) named(all *ledger, names ...string) (*Layer, bool) {
	if c == nil {
		return nil, false
	}
	f, r := c.open(c.file(names[0], layerFile), maxIndex)
	if f == nil {
		return nil, false
	}
	defer f.Close()
	l, err := decodeLayer(r, all, names...)
	if err != nil {
		return nil, false
	}
	c.touch(f.Name())
	return l, true
}

// PutLayer stores the index of a layer. The caller must have verified the digest.
func (c *Cache) PutLayer(digest, keepID string, l *Layer) error {
	if c == nil {
		return nil
	}
	name := layerName(digest, keepID)
	return c.put(c.file(name, layerFile), func(w io.Writer) error { return encodeLayer(w, name, l) })
}

// Document returns the document that was stored under a key.
func (c *Cache) Document(key string) ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	f, r := c.open(c.file(key, documentFile), maxDocument)
	if f == nil {
		return nil, false
	}
	defer f.Close()
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(indexWindow))
	if err != nil {
		return nil, false
	}
	defer z.Close()
	b, err := io.ReadAll(io.LimitReader(z, maxDocument+1))
	if err != nil || len(b) > maxDocument {
		return nil, false
	}
	b, ok := bytes.CutPrefix(b, []byte(key+"\n"))
	if ok {
		c.touch(f.Name())
	}
	return b, ok
}

// PutDocument stores a document under a key, which must name everything that it depends
// on.
func (c *Cache) PutDocument(key string, doc []byte) error {
	if c == nil {
		return nil
	}
	return c.put(c.file(key, documentFile), func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(indexWindow))
		if err != nil {
			return err
		}
		_, err = z.Write(slices.Concat([]byte(key+"\n"), doc))
		return errors.Join(err, z.Close())
	})
}

// open opens a file of the cache, and returns its bytes without the code. It returns nil if
// there is none that can be believed. A file that is not regular counts as absent, so that
// no FIFO's writer is waited for.
func (c *Cache) open(name string, most int64) (*os.File, io.Reader) {
	if c.key == nil {
		return nil, nil
	}
	f, err := trust.Open(name)
	if err != nil {
		return nil, nil
	}
	r, ok := c.key.Verified(f, most)
	if !ok {
		f.Close()
		return nil, nil
	}
	return f, r
}

func (c *Cache) time() time.Time {
	if c.now != nil {
		return c.now()
	}
	return time.Now()
}

// touch marks a file as used now. It ignores errors: a cache may be read-only.
func (c *Cache) touch(name string) {
	now := c.time()
	os.Chtimes(name, now, now)
}

// put writes a file whole or not at all, and removes old files beyond Max.
func (c *Cache) put(name string, write func(io.Writer) error) error {
	f, err := c.create(name)
	if err != nil {
		return err
	}
	defer f.drop()
	f.err = write(f.sealed)
	return f.keep()
}

// newCacheFile is a file of a cache that is being written.
type newCacheFile struct {
	*os.File
	cache  *Cache
	name   string
	sealed io.WriteCloser
	err    error
}

// create returns a new file, of which the caller calls keep or drop.
func (c *Cache) create(name string) (*newCacheFile, error) {
	if c.key == nil {
		return nil, ErrNoKey
	}
	f, err := os.CreateTemp(c.Dir, newFile+"*")
	if err != nil {
		return nil, fmt.Errorf("writing to the cache: %w", source.PathError(err))
	}
	return &newCacheFile{File: f, cache: c, name: name, sealed: c.key.NewWriter(f)}, nil
}

// keep gives the file its name, and removes old files beyond Max, unless the writing has failed.
func (f *newCacheFile) keep() error {
	err := errors.Join(f.err, f.sealed.Close(), f.Close())
	if err == nil {
		f.cache.touch(f.File.Name())
		err = os.Rename(f.File.Name(), f.name)
	}
	if err != nil {
		return fmt.Errorf("writing to the cache: %w", source.PathError(err))
	}
	f.cache.evict(f.name)
	return nil
}

// drop removes the file, unless it was kept.
func (f *newCacheFile) drop() {
	f.Close()
	os.Remove(f.File.Name())
}

// arrival is the file of an index of somebody else while it arrives: the bytes as they come, behind the name by which
// this cache finds them. A nil one takes nothing. An error of the cache is none of the index's.
type arrival struct {
	file *newCacheFile
	w    *bufio.Writer
	err  error
}

// receive returns a file for the index of a layer that comes from those whom by names.
func (c *Cache) receive(digest, keepID, by string) *arrival {
	if c == nil {
		return nil
	}
	name := layerName(digest, keepID+by)
	f, err := c.create(c.file(name, layerFile))
	if err != nil {
		return &arrival{err: err}
	}
	a := &arrival{file: f, w: bufio.NewWriterSize(f.sealed, 64<<10)}
	a.err = encodeName(a.w, name)
	return a
}

// Write takes the next bytes.
func (a *arrival) Write(b []byte) (int, error) {
	if a != nil && a.err == nil {
		_, a.err = a.w.Write(b)
	}
	return len(b), nil
}

// keep keeps what has arrived.
func (a *arrival) keep() error {
	switch {
	case a == nil:
		return nil
	case a.file == nil:
		return a.err
	}
	a.file.err = errors.Join(a.err, a.w.Flush())
	return a.file.keep()
}

// drop forgets what has arrived, unless it was kept.
func (a *arrival) drop() {
	if a != nil && a.file != nil {
		a.file.drop()
	}
}

// CacheFile is a file of a cache.
type CacheFile struct {
	Name string // without the directory
	Size int64  // in bytes
	Used time.Time
}

// Files returns the files of the cache, the least recently used first, without other
// files in its directory.
func (c *Cache) Files() ([]CacheFile, error) {
	list, err := os.ReadDir(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the cache: %w", source.PathError(err))
	}
	var files []CacheFile
	for _, d := range list {
		if !cacheFile.MatchString(d.Name()) {
			continue
		}
		st, err := d.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue // another process may have removed it
		}
		files = append(files, CacheFile{d.Name(), st.Size(), st.ModTime()})
	}
	slices.SortFunc(files, func(a, b CacheFile) int {
		if c := a.Used.Compare(b.Used); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return files, nil
}

// ErrForeign is the error of a file of a cache that has another key, or of no cache.
var ErrForeign = errors.New("was written with another key")

// Has reports whether the cache has a file of a name.
func (c *Cache) Has(name string) bool {
	if !movable(name) {
		return false
	}
	_, err := os.Lstat(filepath.Join(c.Dir, name))
	return err == nil
}

// Export returns the bytes of a file that Files has listed, with the code at its end. A file
// that this user's cache would not read, or one that is not finished, is [ErrForeign].
func (c *Cache) Export(name string) ([]byte, error) {
	if !movable(name) {
		return nil, ErrForeign
	}
	f, _ := c.open(filepath.Join(c.Dir, name), maxIndex+trust.CodeSize)
	if f == nil {
		return nil, ErrForeign
	}
	defer f.Close()
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxIndex+trust.CodeSize))
}

// Import stores a file that another machine has exported, if its code is by this cache's key;
// else the error is [ErrForeign]. The holder of the bytes cannot change them, nor the key
// under which they are found, which is in them.
func (c *Cache) Import(name string, r io.Reader) error {
	if c.key == nil {
		return ErrNoKey
	}
	if !movable(name) {
		return ErrForeign
	}
	f, err := os.CreateTemp(c.Dir, newFile+"*")
	if err != nil {
		return fmt.Errorf("writing to the cache: %w", source.PathError(err))
	}
	defer os.Remove(f.Name())
	_, err = io.Copy(f, io.LimitReader(r, maxIndex+trust.CodeSize+1))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		if _, ok := c.key.Verified(f, maxIndex+trust.CodeSize); !ok {
			err = ErrForeign
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	name = filepath.Join(c.Dir, name)
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("writing to the cache: %w", source.PathError(err))
	}
	c.evict(name)
	return nil
}

// movable reports whether a file of a cache may be moved to another machine.
func movable(name string) bool {
	return cacheFile.MatchString(name) && !strings.HasPrefix(name, newFile)
}

// unfinished is the age from which a file that was being written counts as left behind.
const unfinished = 24 * time.Hour

// evict removes the least recently used files until the others fit into Max, and files
// that writers have left behind. It keeps the file keep.
func (c *Cache) evict(keep string) {
	files, err := c.Files()
	if err != nil {
		return
	}
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	for _, f := range files {
		half := strings.HasPrefix(f.Name, newFile)
		switch {
		case half && c.time().Sub(f.Used) < unfinished:
			continue
		case !half && (total <= c.Max || f.Name == filepath.Base(keep)):
			continue
		}
		os.Remove(filepath.Join(c.Dir, f.Name))
		total -= f.Size
	}
}

// Clean removes the files of the cache. It returns their number and their bytes.
func (c *Cache) Clean() (n int, size int64, err error) {
	files, err := c.Files()
	if err != nil {
		return 0, 0, err
	}
	for _, f := range files {
		if err := os.Remove(filepath.Join(c.Dir, f.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return n, size, fmt.Errorf("the cache: %w", source.PathError(err))
		}
		n, size = n+1, size+f.Size
	}
	return n, size, nil
}
