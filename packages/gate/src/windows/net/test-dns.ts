import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { parseAddress } from '@anchorhold/core/net/addresses'

/** A record that is answered: an address, or another name. */
export type DnsRecord = { readonly name?: string; readonly address: string } | { readonly name?: string; readonly alias: string }
/** What is answered to a question; null for silence. `asked` counts the questions of this kind for this name. */
export type DnsAnswers = (question: {
  readonly name: string
  readonly kind: 'A' | 'AAAA'
  readonly asked: number
}) => readonly DnsRecord[] | null

const kinds: Readonly<Record<number, 'A' | 'AAAA'>> = { 1: 'A', 28: 'AAAA' }
const udpBytesMax = 1200

/** A name server on loopback that answers as it likes, for tests. */
export async function testDns(answers: DnsAnswers) {
  const questions: string[] = []
  function answer(query: Buffer): Buffer | null {
    const { name, end } = nameAt(query, 12)
    const kind = kinds[query.readUInt16BE(end)]
    if (kind === undefined) return message(query, end + 4, [])
    questions.push(`${kind} ${name}`)
    const records = answers({ name, kind, asked: questions.filter((one) => one === `${kind} ${name}`).length })
    return records === null
      ? null
      : message(
          query,
          end + 4,
          records.map((record) => encode(record, name)),
        )
  }
  const { udp, tcp, port } = await bothOnOnePort()
  udp.on('message', (query, from) => {
    const said = answer(query)
    if (said === null) return
    // What does not fit is asked for again by TCP.
    const cut = said.length > udpBytesMax ? truncated(query, said) : said
    udp.send(cut, from.port, from.address)
  })
  tcp.on('connection', (socket) => {
    socket
      .on('error', () => {})
      .once('data', (chunk: Buffer) => {
        const said = answer(chunk.subarray(2))
        if (said === null) return
        const length = Buffer.alloc(2)
        length.writeUInt16BE(said.length)
        socket.end(Buffer.concat([length, said]))
      })
  })
  return {
    server: `127.0.0.1:${port}`,
    questions,
    async [Symbol.asyncDispose]() {
      udp.close()
      await new Promise((resolve) => tcp.close(resolve))
    },
  }
}

/** A port that is free for one may be taken for the other. */
async function bothOnOnePort() {
  for (;;) {
    const tcp = createServer().listen(0, '127.0.0.1')
    await once(tcp, 'listening')
    const address = tcp.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    const udp = createSocket('udp4')
    udp.bind(port, '127.0.0.1')
    try {
      await once(udp, 'listening')
      return { udp, tcp, port }
    } catch {
      tcp.close()
    }
  }
}

function nameAt(query: Buffer, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = []
  let at = start
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.subarray(at + 1, at + 1 + length).toString('latin1'))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 }
}

const encodeName = (name: string) =>
  Buffer.concat([...name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)])), Buffer.from([0])])

function encode(record: DnsRecord, asked: string): Buffer {
  const data = 'alias' in record ? encodeName(record.alias) : Buffer.from(parseAddress(record.address)!)
  const head = Buffer.alloc(10)
  head.writeUInt16BE('alias' in record ? 5 : data.length === 4 ? 1 : 28, 0)
  head.writeUInt16BE(1, 2)
  // Its time to live, at 4, is none.
  head.writeUInt16BE(data.length, 8)
  return Buffer.concat([encodeName(record.name ?? asked), head, data])
}

function message(query: Buffer, questionEnd: number, records: readonly Buffer[]): Buffer {
  const head = Buffer.from(query.subarray(0, questionEnd))
  head.writeUInt16BE(0x81_80, 2)
  head.writeUInt16BE(records.length, 6)
  head.writeUInt32BE(0, 8)
  return Buffer.concat([head, ...records])
}
function truncated(query: Buffer, said: Buffer): Buffer {
  const { end } = nameAt(query, 12)
  const head = Buffer.from(said.subarray(0, end + 4))
  head.writeUInt16BE(0x83_80, 2)
  head.writeUInt16BE(0, 6)
  return head
}
