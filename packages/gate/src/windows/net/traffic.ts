import type { Socket } from 'node:net'
import { authorityOf, type Target } from '@anchorhold/core/net/target'
import type { EventBody, NewEvent } from '@anchorhold/protocol/events'

/** What went through a window, by host. */
export type Traffic = {
  /** Counts a call: a connection that is passed on, or a request where it is looked into. */
  called(target: Target, secrets?: readonly string[]): void
  /** Counts the bytes of a connection as long as it is open. */
  follow(target: Target, socket: Socket): void
  blocked(target: Target | null, why: string): void
  /** Writes down all that was not yet, of open connections too. */
  flush(): void
}

type Row = {
  readonly target: Target | null
  readonly open: Map<Socket, { read: number; written: number }>
  connections: number
  bytesOut: number
  bytesIn: number
  blocked: number
  why: string | null
  secrets: Map<string, number>
}

/** So many hosts are told apart until they are written down; the rest are counted together. */
const hostsMax = 200
/** So many secrets are named in one event. */
const secretsMax = 100
/** A host is written down when nothing of it has been open for so long. */
const quietMs = 5000

/** Invariant: a byte is told in one event, and no more events are made than hosts were asked for. */
export function traffic(note: (event: NewEvent) => void): Traffic {
  const rows = new Map<string, Row>()
  let timer: NodeJS.Timeout | null = null

  function rowOf(wanted: Target | null): Row {
    const target = wanted !== null && (rows.size < hostsMax || rows.has(authorityOf(wanted))) ? wanted : null
    const key = target === null ? '' : authorityOf(target)
    const found = rows.get(key)
    if (found !== undefined) return found
    const row: Row = {
      target,
      open: new Map(),
      connections: 0,
      bytesOut: 0,
      bytesIn: 0,
      blocked: 0,
      why: null,
      secrets: new Map(),
    }
    rows.set(key, row)
    return row
  }

  /** Takes what an open connection has carried since it was last looked at. */
  function take(row: Row, socket: Socket): void {
    const seen = row.open.get(socket)
    if (seen === undefined) return
    row.bytesOut += socket.bytesWritten - seen.written
    row.bytesIn += socket.bytesRead - seen.read
    row.open.set(socket, { read: socket.bytesRead, written: socket.bytesWritten })
  }

  function write(row: Row): void {
    const { connections, bytesOut, bytesIn, blocked, why, secrets, target } = row
    if (connections + bytesOut + bytesIn + blocked > 0) {
      const body: EventBody<'net'> = {
        host: target?.host ?? null,
        port: target?.port ?? null,
        connections,
        bytes_out: bytesOut,
        bytes_in: bytesIn,
        blocked,
        why,
        secrets: [...secrets].slice(0, secretsMax).map(([name, count]) => ({ name, count })),
      }
      note({ type: 'net', body })
    }
    Object.assign(row, { connections: 0, bytesOut: 0, bytesIn: 0, blocked: 0, why: null, secrets: new Map() })
  }

  function writeQuiet(): void {
    timer = null
    for (const [key, row] of rows) {
      if (row.open.size > 0) continue
      write(row)
      rows.delete(key)
    }
  }
  const writeSoon = () => {
    timer ??= setTimeout(writeQuiet, quietMs).unref()
  }

  return {
    called(target, secrets = []) {
      const row = rowOf(target)
      row.connections++
      for (const name of secrets) row.secrets.set(name, (row.secrets.get(name) ?? 0) + 1)
      if (row.open.size === 0) writeSoon()
    },
    follow(target, socket) {
      const row = rowOf(target)
      row.open.set(socket, { read: 0, written: 0 })
      socket.once('close', () => {
        take(row, socket)
        row.open.delete(socket)
        if (row.open.size === 0) writeSoon()
      })
    },
    blocked(target, why) {
      const row = rowOf(target)
      row.blocked++
      row.why = why.slice(0, 500)
      if (row.open.size === 0) writeSoon()
    },
    flush() {
      if (timer !== null) clearTimeout(timer)
      for (const row of rows.values()) for (const socket of row.open.keys()) take(row, socket)
      for (const row of rows.values()) if (row.open.size > 0) write(row)
      writeQuiet()
    },
  }
}
