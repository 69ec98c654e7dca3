// Stands in for @redis/test-utils, which starts servers in containers: here a server runs already. One test is what
// reaches it; the specs' other tests look at how node-redis writes a command, without any server.
'use strict';

const RedisClient = require('./packages/client/lib/client').default;

const PORTS = {
    open: Number(process.env.FOREBAY_SUITE_PORT),
    password: Number(process.env.FOREBAY_SUITE_PASSWORD_PORT)
};

// What forebay says of itself, in INFO: tests that ask for a newer Redis skip themselves.
const VERSION = process.env.FOREBAY_SUITE_REDIS_VERSION.split('.').map(Number);

class TestUtils {
    isVersionGreaterThan(minimum) {
        if (minimum === undefined) return true;
        for (const [place, wanted] of minimum.entries()) {
            if ((VERSION[place] ?? 0) !== wanted) return (VERSION[place] ?? 0) > wanted;
        }
        return true;
    }

    isVersionGreaterThanHook(minimum) {
        const ours = this.isVersionGreaterThan(minimum);
        before(function () {
            if (!ours) skip(this, `Redis version required >= ${minimum.join('.')}`);
        });
    }

    testWithClient(title, body, options) {
        const utils = this;
        const test = it(title, async function () {
            const minimum = options.minimumDockerVersion;
            if (!utils.isVersionGreaterThan(minimum)) skip(this, `Redis version required >= ${minimum.join('.')}`);
            const password = options.serverArguments.includes('--requirepass');
            const client = RedisClient.create({
                ...options.clientOptions,
                socket: { ...options.clientOptions?.socket, port: password ? PORTS.password : PORTS.open }
            });
            if (options.disableClientSetup) return body(client);
            await client.connect();
            try {
                await client.flushAll();
                await body(client);
            } finally {
                if (client.isOpen) {
                    await client.flushAll();
                    await client.disconnect();
                }
            }
        });
        test.reachesServer = true;
    }

    testWithCluster(title) {
        const test = it(title, function () {
            skip(this, 'needs a cluster');
        });
        test.reachesServer = true;
    }
}

function skip(context, why) {
    (context.test ?? context.currentTest).why = why;
    // Of a hook: the tests of its suite.
    if (context.test.type === 'hook') context.test.parent.eachTest(test => { test.why = why; });
    context.skip();
}

module.exports = { __esModule: true, default: TestUtils };
