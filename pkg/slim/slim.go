// Package slim makes an image without some of its bytes: files that no container sees, the
// classes of package size that a user names, and GPU code for other GPUs.
//
// [New] decides which files of which layers go, so that the merged file system loses
// exactly the files of the plan. [Rewrite] copies the tar of a layer without them: it copies
// the headers of the other members as they are, and needs little memory. A layer without
// such files stays as it is.
//
// The package knows how layers merge, the form of tar archives and of containers of GPU code.
// It knows no registries, and not whether an image works without a file: its caller replays
// the image before and after.
package slim
