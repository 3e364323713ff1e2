// Writes the sources that the map of a bundle carries into a folder, where Node can run them: `node sources.mjs MAP FOLDER`.

import fs from 'node:fs';
import path from 'node:path';

const [map, folder] = process.argv.slice(2);
const { sources, sourcesContent } = JSON.parse(fs.readFileSync(map, 'utf8'));

/** What the sources import from packages: a set of names for each. None of it matters to rules. */
const imported = new Map();
let written = 0;
sources.forEach((source, i) => {
    const name = path.posix.normalize(source.replace(/^webpack:\/\/[^/]*\//, '').replace(/\?.*$/, ''));
    const code = sourcesContent?.[i];
    if (!name.startsWith('src/') || typeof code !== 'string') {
        return;
    }
    for (const [, names, from] of code.matchAll(/^import\s+([^;]*?)\s+from\s+'([^'.][^']*)'/gm)) {
        const known = imported.get(from) ?? new Set();
        names.match(/\{([^}]*)\}/)?.[1].split(',').forEach((n) => known.add(n.trim().split(' as ')[0]));
        imported.set(from, known);
    }
    const file = path.join(folder, name);
    fs.mkdirSync(path.dirname(file), { recursive: true });
    fs.writeFileSync(file, code);
    written += 1;
});
if (written === 0) {
    throw new Error(`${map} carries no sources`);
}
for (const [from, names] of imported) {
    const home = path.join(folder, 'node_modules', from);
    const exports = [...names].filter(Boolean).map((name) => `export const ${name} = {};\n`);
    fs.mkdirSync(home, { recursive: true });
    fs.writeFileSync(path.join(home, 'package.json'), JSON.stringify({ type: 'module', exports: './index.js' }));
    fs.writeFileSync(path.join(home, 'index.js'), `export default {};\n${exports.join('')}`);
}
fs.writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ type: 'module' }));
console.log(`${written} sources of dash.js`);
