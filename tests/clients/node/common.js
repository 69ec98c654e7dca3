// What the tests share: where the server is, and small means.

export const port = Number(process.env.FOREBAY_CLIENTS_PORT);
export const isForebay = process.env.FOREBAY_CLIENTS_SERVER === "forebay";

export const range = (count) => Array.from({ length: count }, (_, n) => n);
export const sum = (numbers) => numbers.reduce((total, number) => total + Number(number), 0);

/** All of an asynchronous iterator's items. */
export async function collect(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}
