package slim

// RewriteLayer copies the tar of a layer as a plan says.
var RewriteLayer = (*Plan).rewrite
