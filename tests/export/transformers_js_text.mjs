// Raw text by transformers.js: node FILE PACKAGE FOLDER LINES; prints the numbers of the words of
// each line, and its translation.
import { readFileSync } from "node:fs";

const [packageFolder, folder, lines] = process.argv.slice(2);
const { env, pipeline } = await import(`${packageFolder}/dist/transformers.node.mjs`);
env.allowRemoteModels = false;
env.localModelPath = `${folder}/../`;
const config = JSON.parse(readFileSync(`${folder}/config.json`));
// the words that may come after the first one; the pipeline's own limit is 256
const max_new_tokens = config.max_target_tokens + config.decoder_start.length;
const translate = await pipeline("translation", folder.split("/").pop());
const found = [];
for (const line of JSON.parse(lines)) {
  const numbers = translate.tokenizer(line, { return_tensor: false }).input_ids;
  const [{ translation_text: text }] = await translate(line, { max_new_tokens });
  found.push({ numbers, text });
}
console.log(JSON.stringify(found));
