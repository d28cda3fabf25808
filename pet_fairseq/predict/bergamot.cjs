// Translates with Bergamot: node FILE WORKER MODEL VOCABULARY CONFIG
// WORKER is the folder `worker` of @browsermt/bergamot-translator, CONFIG its options in JSON.
// Each line of standard input is a list of texts in JSON, and is answered by one of translations.
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { Worker } = require("worker_threads");

const [folder, model, vocabulary, config] = process.argv.slice(2);
const file = path.join(folder, "translator-worker.js");
// Node would take the file for an ES module, which it is not, because of the package around it
const code = `(function (__filename, __dirname) {${fs.readFileSync(file, "utf8")}
})(${JSON.stringify(file)}, ${JSON.stringify(folder)})`;
const worker = new Worker(code, { eval: true, stdout: true }); // what it prints is no answer
const waiting = new Map();
let calls = 0;
const pair = { from: "source", to: "target" };

function fail(error) {
  process.stderr.write(`${error.message ?? error}\n`, () => process.exit(1));
}

function call(name, ...args) {
  const id = ++calls;
  worker.postMessage({ id, name, args });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

function read(name) {
  const bytes = fs.readFileSync(name);
  return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
}

async function main() {
  await call("initialize", {});
  await call("loadTranslationModel", pair, {
    model: read(model),
    shortlist: new ArrayBuffer(0),
    vocabs: [read(vocabulary)],
    config: JSON.parse(config),
  });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const texts = JSON.parse(line).map((text) => ({ text, html: false, qualityScores: false }));
    const found = await call("translate", { models: [pair], texts });
    process.stdout.write(`${JSON.stringify(found.map(({ target }) => target.text))}\n`);
  }
  process.exit(0);
}

worker.on("error", fail);
worker.on("message", ({ id, result, error }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id); // or all translations would stay in memory
  if (error === undefined) resolve(result);
  else reject(error);
});
main().catch(fail);
