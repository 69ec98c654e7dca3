// Mocha's reporter for tests/suites.rs: one line of JSON for each test that reaches the server.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const PACKAGES = path.join(__dirname, 'packages');

module.exports = class Report {
    constructor(runner) {
        const file = fs.openSync(process.env.FOREBAY_SUITE_REPORT, 'a');
        const write = (test, outcome, why) => {
            if (!test.reachesServer && outcome !== 'failed') return;
            const id = `${path.relative(PACKAGES, test.file).replace(/\.js$/, '.ts')}: ${test.titlePath().join(' / ')}`;
            fs.writeSync(file, `${JSON.stringify({ id, outcome, why })}\n`);
        };
        runner.on('pass', test => write(test, 'passed', ''));
        runner.on('fail', (test, error) => write(test, 'failed', `${error.name}: ${error.message}`));
        runner.on('pending', test => write(test, 'skipped', test.why ?? 'no reason given'));
        // The report is whole.
        runner.on('end', () => fs.writeSync(file, `${JSON.stringify({ id: '', outcome: 'end', why: '' })}\n`));
    }
};
