// Greedy search by transformers.js: node FILE PACKAGE FOLDER SENTENCES, in numbers of words.
const [packageFolder, folder, sentences] = process.argv.slice(2);
const { AutoModelForSeq2SeqLM, Tensor, env } = await import(
  `${packageFolder}/dist/transformers.node.mjs`
);
env.allowRemoteModels = false;
env.localModelPath = `${folder}/../`;
const model = await AutoModelForSeq2SeqLM.from_pretrained(folder.split("/").pop(), {
  dtype: "fp32",
});
const found = [];
for (const sentence of JSON.parse(sentences)) {
  const row = (numbers) =>
    new Tensor("int64", BigInt64Array.from(numbers.map(BigInt)), [1, numbers.length]);
  const inputs = { inputs: row(sentence), attention_mask: row(sentence.map(() => 1)) };
  // its lengths count the word that the decoder starts from
  const output = await model.generate({ ...inputs, num_beams: 1, min_length: 2 });
  found.push(output.tolist()[0].map(Number));
}
console.log(JSON.stringify(found));
