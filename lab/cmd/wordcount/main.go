// Command wordcount is an example of an application master: it counts the words of a text in containers that it asks Hilbert for.
//
//	wordcount -image IMAGE -text FILE   the master: prints each word with its count; started again, it goes on where it was
//	wordcount -worker                   what the image runs: counts the part that its pod is for
//
// The text must lie in the image under the same path. The master's user needs the role edit in its namespace.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"hilbert.dev/hilbert/kube/apiserver"
	"hilbert.dev/hilbert/kube/requests/master"
	"hilbert.dev/hilbert/lab/requests/wordcount"
)

// What a worker is told by its environment.
const (
	envIndex = "INDEX"
	envParts = "PARTS"
	envText  = "TEXT"
	// results is where the kubelet looks for the termination message.
	results     = "/dev/termination-log"
	resultsMode = 0o644
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server; empty: as a pod does")
	namespace := flag.String("namespace", "default", "where the containers are asked for")
	name := flag.String("name", "wordcount", "the name of the ResourceRequest")
	image := flag.String("image", "", "the image that has this command and the text")
	text := flag.String("text", "", "the text")
	parts := flag.Int("parts", 8, "how many containers")
	works := flag.Bool("worker", false, "count a part")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if *works {
		err = work()
	} else {
		err = count(ctx, *kubeconfig, *namespace, *name, *image, *text, *parts)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

func count(ctx context.Context, kubeconfig, namespace, name, image, text string, parts int) error {
	if image == "" || text == "" {
		return errors.New("-image and -text are missing; name an image that has this command and the text")
	}
	connection, err := apiserver.Connect(kubeconfig)
	if err != nil {
		return err
	}
	client, err := master.New(connection, namespace, name)
	if err != nil {
		return err
	}
	m := wordcount.Master{Client: client, Parts: parts, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "worker", Image: image, Args: []string{"-worker"},
		Env: []corev1.EnvVar{
			{Name: envIndex, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: wordcount.IndexField}}},
			{Name: envParts, Value: strconv.Itoa(parts)}, {Name: envText, Value: text},
		},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
	}}}}}
	counts, err := m.Run(ctx)
	for _, word := range slices.Sorted(maps.Keys(counts)) {
		fmt.Println(word, counts[word])
	}
	return err
}

func work() error {
	index, indexErr := strconv.Atoi(os.Getenv(envIndex))
	parts, partsErr := strconv.Atoi(os.Getenv(envParts))
	text, textErr := os.ReadFile(os.Getenv(envText))
	if err := errors.Join(indexErr, partsErr, textErr); err != nil {
		return err
	}
	if index < 0 || index >= parts {
		return fmt.Errorf("there is no part %d of %d", index, parts)
	}
	result, err := wordcount.Count(wordcount.Split(string(text), parts)[index])
	if err != nil {
		return err
	}
	return os.WriteFile(results, []byte(result), resultsMode)
}
