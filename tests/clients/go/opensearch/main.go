// SPDX-License-Identifier: Apache-2.0

// Loads lines with the BulkIndexer of opensearch-go and reads them with MGet, comparing bytes.
//
//	opensearch URL FILE INDEX
//
// prints {"loaded": N, "read": N}; ids are line-0, line-1 …
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/opensearch-project/opensearch-go/v4"
	"github.com/opensearch-project/opensearch-go/v4/opensearchapi"
	"github.com/opensearch-project/opensearch-go/v4/opensearchutil"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// load adds the documents that are pending; those that were acknowledged leave it.
func load(client *opensearchapi.Client, index string, pending map[string][]byte, flush int) {
	ctx := context.Background()
	stored := make(chan string, len(pending))
	indexer := must(opensearchutil.NewBulkIndexer(opensearchutil.BulkIndexerConfig{
		Client: client, Index: index, NumWorkers: 2, FlushBytes: flush,
	}))
	for id, line := range pending {
		err := indexer.Add(ctx, opensearchutil.BulkIndexerItem{
			Action: "index", DocumentID: id, Body: bytes.NewReader(line),
			OnSuccess: func(_ context.Context, item opensearchutil.BulkIndexerItem, _ opensearchapi.BulkRespItem) {
				stored <- item.DocumentID
			},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := indexer.Close(ctx); err != nil {
		log.Print(err)
	}
	close(stored)
	for id := range stored {
		delete(pending, id)
	}
}

func main() {
	url, file, index := os.Args[1], os.Args[2], os.Args[3]
	data := must(os.ReadFile(file))
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	client := must(opensearchapi.NewClient(opensearchapi.Config{Client: opensearch.Config{
		Addresses: []string{url}, CompressRequestBody: true, RetryOnStatus: []int{429, 502, 503, 504},
	}}))
	pending := map[string][]byte{}
	for n, line := range lines {
		pending[fmt.Sprintf("line-%d", n)] = line
	}
	// The client retries a few times; a daemon that is away for longer is the program's matter.
	for until := time.Now().Add(2 * time.Minute); len(pending) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			log.Fatal(len(pending), " documents were not taken")
		}
		load(client, index, pending, len(data)/6)
	}
	read := 0
	for at := 0; at < len(lines); at += 500 {
		part := lines[at:min(at+500, len(lines))]
		ids := make([]string, len(part))
		for n := range part {
			ids[n] = fmt.Sprintf("line-%d", at+n)
		}
		body := must(json.Marshal(map[string][]string{"ids": ids}))
		reply := must(client.MGet(context.Background(), opensearchapi.MGetReq{Index: index, Body: bytes.NewReader(body)}))
		for n, doc := range reply.Docs {
			if !doc.Found || doc.ID != ids[n] || !bytes.Equal(doc.Source, part[n]) {
				log.Fatalf("%s: %s", doc.ID, doc.Source)
			}
			read++
		}
	}
	fmt.Printf("{\"loaded\": %d, \"read\": %d}\n", len(lines), read)
}
