// A producer in Node 18 or newer, without packages: it creates a thread, answers the question about it, and follows
// its log until it has ended. Usage: node follow.mjs ID [CHOICE]
import { readFileSync } from "node:fs";

const url = `${process.env.INTERLOCK_API_URL ?? "http://127.0.0.1:8470"}/v1`;
// Without a token it is that of the `interlock up` that runs in this folder.
const token = process.env.INTERLOCK_API_TOKEN ??
  readFileSync(`${process.env.INTERLOCK_HOME ?? ".interlock"}/api.token`, "utf8").trim();
const [id, choice = "begin"] = process.argv.slice(2);

async function call(path, { body, ...headers } = {}) {
  const answer = await fetch(url + path, {
    method: body ? "POST" : "GET",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }), ...headers },
    body: body && JSON.stringify(body),
  });
  if (answer.ok) return answer;
  const problem = await answer.json(); // problem details of RFC 9457
  throw new Error(`${problem.status} ${problem.title}: ${problem.detail}`);
}

// Yields the lines of a log. After a lost connection it reads on after the last one that it got.
async function* follow(position = "0-0") {
  for (;;) {
    const stream = await call(`/records/${id}:events`, { "Last-Event-ID": position });
    let text = "";
    try {
      for await (const part of stream.body.pipeThrough(new TextDecoderStream())) {
        const blocks = (text + part).split(/\r?\n\r?\n/);
        text = blocks.pop();
        for (const block of blocks) {
          const field = (name) => block.match(new RegExp(`^${name}: (.*)$`, "m"))?.[1].trim();
          if (!field("id")) continue; // a sign of life
          position = field("id");
          yield JSON.parse(field("data"));
        }
      }
    } catch (lost) {
      console.error(`reading on after ${position}: ${lost.message}`);
    }
  }
}

// The key is the id: the call can be repeated after a lost answer, and creates one thread.
const payload = { hold: true, inciting: { source: "node", title: "Call the dentist" } };
await call("/records", { body: { machine: "thread", payload }, "Idempotency-Key": id });

const [card] = await (await call(`/records/${id}:cards`)).json();
if (card) {
  console.log(card.question, card.affordances.map((offer) => offer.name));
  const seen = (await call(`/records/${id}`)).headers.get("ETag");
  // Somebody who has answered first makes this a 412, with the record as it is now.
  const decision = { choice, proposal: card.proposal };
  await call(`/records/${id}:decide`, { body: decision, "If-Match": seen, "Idempotency-Key": `answer-${id}` });
}

for await (const line of follow()) {
  console.log(line.line === "event" ? `${line.trigger} -> ${line.target}: ${line.because}` : line.kind);
  const { ended, state } = await (await call(`/records/${id}`)).json();
  if (ended && line.target === state) process.exit(0);
}
