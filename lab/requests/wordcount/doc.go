// Package wordcount is an example of an application master: it counts the words of a text, one part in each container.
//
// Data flow: Master.Run opens a ResourceRequest with one container for each part. A worker finds in the annotation hilbert.dev/ask-index which part is its own, and leaves its counts as JSON in the termination message. The master adds up the messages of the
// containers that have succeeded, and deletes the request once it has all.
//
// What it shows: a master has no state of its own. What has succeeded stands in the request's status, and what came out in the pods, so that a master that is started again goes on where the one before was. Workers that fail are made anew without it. A result whose pod is gone is asked for
// again, in another ask.
package wordcount
