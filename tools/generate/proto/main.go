// Command proto writes the Go files of a protocol definition: it compiles the definition without protoc, and hands it to the generators that this module pins.
//
//	proto DIRECTORY FILE OUTPUT
//
// It runs in the folder of this module, so that go tool finds the generators. DIRECTORY has the definition FILE; OUTPUT is where the files go. It is not part of the
// product.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	const arguments = 4
	if len(os.Args) != arguments {
		fmt.Fprintln(os.Stderr, "usage: proto DIRECTORY FILE OUTPUT")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "proto:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, directory, file, output string) error {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{directory}}, SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(ctx, file)
	if err != nil {
		return fmt.Errorf("compile %s: %w", file, err)
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{file}, Parameter: new("paths=source_relative")}
	request.ProtoFile = append(request.ProtoFile, protodesc.ToFileDescriptorProto(files[0]))
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	for _, name := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, name, in, output); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// run has a generator answer a request, and writes the files that it answers with.
func run(ctx context.Context, generator string, in []byte, output string) error {
	command := exec.CommandContext(ctx, "go", "tool", generator)
	command.Stdin, command.Stderr = bytes.NewReader(in), os.Stderr
	out, err := command.Output()
	if err != nil {
		return err
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("it says: %s", answer.GetError())
	}
	const readable = 0o644
	for _, f := range answer.GetFile() {
		if err := os.WriteFile(filepath.Join(output, filepath.Base(f.GetName())), []byte(f.GetContent()), readable); err != nil {
			return err
		}
	}
	return nil
}
