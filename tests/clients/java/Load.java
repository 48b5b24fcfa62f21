// SPDX-License-Identifier: Apache-2.0
// Loads lines with the low-level REST client, bulk by bulk, and reads them with _source, comparing bytes.
//   java -cp 'JARS/*' Load.java URL FILE INDEX
// prints {"loaded": N, "read": N}; ids are line-0, line-1 …
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.http.HttpHost;
import org.apache.http.entity.ContentType;
import org.apache.http.nio.entity.NStringEntity;
import org.apache.http.util.EntityUtils;
import org.elasticsearch.client.Request;
import org.elasticsearch.client.Response;
import org.elasticsearch.client.ResponseException;
import org.elasticsearch.client.RestClient;

class Load {
    static final ContentType NDJSON = ContentType.create("application/x-ndjson", "utf-8");

    /** Fails at once unless the daemon is away or busy: then again. The client itself asks every host
     * once, and here there is one. */
    static Response perform(RestClient client, Request request) throws Exception {
        for (long until = System.currentTimeMillis() + 120_000;; Thread.sleep(100)) {
            try {
                return client.performRequest(request);
            } catch (ResponseException e) {
                int status = e.getResponse().getStatusLine().getStatusCode();
                if (status != 429 && status != 503 || System.currentTimeMillis() > until) throw e;
            } catch (IOException e) {
                if (System.currentTimeMillis() > until) throw e;
            }
        }
    }

    static String body(Response response) throws IOException {
        return EntityUtils.toString(response.getEntity(), "utf-8");
    }

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[1]));
        String index = arguments[2];
        int read = 0;
        try (RestClient client = RestClient.builder(HttpHost.create(arguments[0])).setCompressionEnabled(true).build()) {
            for (int at = 0; at < lines.size(); at += 500) {
                StringBuilder bulk = new StringBuilder();
                for (int n = at; n < Math.min(at + 500, lines.size()); n++) {
                    bulk.append("{\"index\":{\"_id\":\"line-").append(n).append("\"}}\n").append(lines.get(n)).append('\n');
                }
                Request request = new Request("POST", "/" + index + "/_bulk");
                request.setEntity(new NStringEntity(bulk.toString(), NDJSON));
                String reply = body(perform(client, request));
                if (!reply.contains("\"errors\":false")) throw new IllegalStateException(reply);
            }
            for (int n = 0; n < lines.size(); n++) {
                String reply = body(perform(client, new Request("GET", "/" + index + "/_source/line-" + n)));
                if (!reply.equals(lines.get(n))) throw new IllegalStateException(n + ": " + reply);
                read++;
            }
        }
        System.out.println("{\"loaded\": " + lines.size() + ", \"read\": " + read + "}");
    }
}
