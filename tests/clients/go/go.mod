module stowd/tests/clients

go 1.24.0

require github.com/opensearch-project/opensearch-go/v4 v4.5.0
