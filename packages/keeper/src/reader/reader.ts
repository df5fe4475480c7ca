// Runs inside the cell: makes text of a page. What a page is made of is for whoever wrote it to choose, and a bug that it finds in here is
// in a place that trusts nobody and holds nothing.
//   node reader.mjs  < URL, type and the most characters as JSON on a line, then the page's bytes
import { pageText } from './page-text.ts'

const chunks: Buffer[] = []
for await (const chunk of process.stdin) chunks.push(chunk as Buffer)
const all = Buffer.concat(chunks)
const end = all.indexOf('\n')
const { url, type, charsMax } = JSON.parse(all.subarray(0, end).toString('utf8')) as {
  url: string
  type: string
  charsMax: number
}
process.stdout.write(JSON.stringify(pageText({ url, type, bytes: all.subarray(end + 1) }, charsMax)))
