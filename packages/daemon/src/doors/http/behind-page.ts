import type { Parts } from '../../app/parts.ts'
import { type Callers, httpApi, type HttpApi } from './api.ts'
import { calls, type CallsOptions } from './calls.ts'
import { terminalDoor, type TerminalDoor } from './terminal.ts'

/** All of the HTTP door but the page: most of the daemon's program, which whoever is shown the page first need not wait for. */
export type BehindPage = { readonly api: HttpApi; readonly terminal: TerminalDoor }

export type BehindPageOptions = Pick<CallsOptions, 'about' | 'shutdown'> & { readonly parts: Parts; readonly callers: Callers }

export const behindPage = ({ parts, about, shutdown, callers }: BehindPageOptions): BehindPage => ({
  api: httpApi({ ...callers, version: about.version, calls: calls({ parts, about, shutdown }) }),
  terminal: terminalDoor({ ...callers, parts }),
})
