import { z } from 'zod'
import { apiRoot } from './api/addresses.ts'
import type { SessionId } from './ids.ts'

/** A shell in a cell, by the name that its keeper gave it. */
export const ShellId = z.string().regex(/^sh_[0-9a-f]{16}$/)

export const TerminalSize = z.object({ cols: z.int().min(2).max(500), rows: z.int().min(2).max(300) })
export type TerminalSize = z.infer<typeof TerminalSize>

/** Bytes that one message carries at most, either way. */
export const terminalBytesMax = 64 * 1024
export const terminalUnseenMax = 512 * 1024
/** What is kept of a shell's output for whoever comes back to it. */
export const terminalKeptBytes = 256 * 1024

/** Where a WebSocket to a terminal is opened. `shell` names one that stands already. */
export const terminalPath = (session: SessionId, { cols, rows }: TerminalSize, shell: string | null): string =>
  `${apiRoot}/sessions/${session}/terminal?cols=${cols}&rows=${rows}${shell === null ? '' : `&shell=${shell}`}`

export const TerminalQuery = z.strictObject({
  cols: z.coerce.number().pipe(TerminalSize.shape.cols),
  rows: z.coerce.number().pipe(TerminalSize.shape.rows),
  shell: ShellId.optional(),
})

/** What is said on a terminal's socket beside bytes, which are what is typed and what is shown. */
export const ToTerminal = z.discriminatedUnion('t', [
  z.strictObject({ t: z.literal('size'), ...TerminalSize.shape }),
  /** So many bytes were shown since the last time: no more than `terminalUnseenMax` are sent ahead of that. */
  z.strictObject({ t: z.literal('seen'), bytes: z.int().min(0) }),
  /** The shell is not wanted any more. */
  z.strictObject({ t: z.literal('close') }),
])
export type ToTerminal = z.infer<typeof ToTerminal>

export const FromTerminal = z.discriminatedUnion('t', [
  /** The first message: which shell it is, and whether all that is shown so far follows. */
  z.object({ t: z.literal('shell'), shell: ShellId, again: z.boolean() }),
  z.object({ t: z.literal('ended'), why: z.string() }),
])
export type FromTerminal = z.infer<typeof FromTerminal>

/** What a keeper has of a shell's output after a number of bytes. */
export const ShellOutput = z.object({
  /** How many bytes came before these: more than was asked for where they are no longer kept. */
  from: z.int().min(0),
  base64: z.string().max(Math.ceil((terminalBytesMax * 4) / 3) + 4),
  ended: z.string().max(500).nullable(),
})
export type ShellOutput = z.infer<typeof ShellOutput>
