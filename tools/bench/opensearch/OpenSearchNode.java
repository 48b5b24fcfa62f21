// SPDX-License-Identifier: Apache-2.0
// One OpenSearch node out of its published artifacts, for the comparison of `make bench-opensearch`.
//
//   java -cp 'LIB/*' OpenSearchNode.java HOME
//
// Listens on a free port of 127.0.0.1, prints "port N", ends when its standard input does. HOME is an
// empty folder that may be thrown away. What is set here is where it listens and keeps its data;
// everything else, the fsync of the translog before each answer included, is its default.
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

public final class OpenSearchNode extends Node {
    private OpenSearchNode(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "bench"),
              List.of(Netty4Plugin.class), false);
    }

    public static void main(String[] args) throws Exception {
        Path home = Path.of(args[0]).toAbsolutePath();
        Settings settings = Settings.builder()
            .put("path.home", home.toString())
            .put("path.data", home.resolve("data").toString())
            .put("cluster.name", "bench")
            .put("node.name", "bench")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", "0")
            .put("transport.port", "0")
            .build();
        try (Node node = new OpenSearchNode(settings).start()) {
            HttpServerTransport http = node.injector().getInstance(HttpServerTransport.class);
            System.out.println("port " + http.boundAddress().publishAddress().getPort());
            System.out.flush();
            while (System.in.read() >= 0) {
                // wait for the end of standard input
            }
        }
    }
}
