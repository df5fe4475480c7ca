import { FromTerminal, terminalBytesMax, terminalPath, type ToTerminal } from '@anchorhold/protocol/terminal'
import type { SessionId } from '@anchorhold/protocol/ids'
import { onScheme } from '../../shell/device.ts'
import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'

export type TerminalState =
  | { readonly is: 'opening' | 'open' | 'lost' }
  | { readonly is: 'ended' | 'refused'; readonly why: string }

export type TerminalOptions = {
  readonly session: SessionId
  readonly element: HTMLElement
  readonly tell: (state: TerminalState) => void
  /** Has whoever sits here show who they are; null where nobody asks for it. A socket that is refused does not say why. */
  readonly prove: (() => Promise<boolean>) | null
}

const memory = (session: SessionId) => `anchorhold.shell.${session}`
const againMs = [250, 500, 1000, 2000, 5000]
/** How often it is tried to open one that never was open. */
const triesMax = 3
/** How much is shown before the other end hears of it. */
const seenStep = 128 * 1024

/** A terminal in the page, and the shell that it shows. What comes is bytes for the terminal and nothing else: it sets no title, opens
 *  no link, and has no way to the clipboard. */
export function openTerminal({ session, element, tell, prove }: TerminalOptions) {
  const terminal = new Terminal({
    fontFamily: "'Geist Mono Variable', ui-monospace, monospace",
    fontSize: 13,
    scrollback: 5000,
    // A program chooses its colours without knowing ours.
    minimumContrastRatio: 4.5,
    linkHandler: { activate() {}, allowNonHttpProtocols: false },
    screenReaderMode: true,
    theme: themeNow(),
  })
  const fit = new FitAddon()
  terminal.loadAddon(fit)
  terminal.open(element)
  fit.fit()
  const size = () => ({ cols: Math.max(2, terminal.cols), rows: Math.max(2, terminal.rows) })
  let socket: WebSocket | null = null
  let shell = sessionStorage.getItem(memory(session))
  let tries = 0
  let wasOpen = false
  let over = false
  let proved = prove === null
  let retry: ReturnType<typeof setTimeout> | undefined
  let shown = 0

  const say = (what: ToTerminal) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(what))
  }
  const type = (text: string) => {
    const bytes = new TextEncoder().encode(text)
    for (let at = 0; at < bytes.length; at += terminalBytesMax)
      if (socket?.readyState === WebSocket.OPEN) socket.send(bytes.subarray(at, at + terminalBytesMax))
  }

  function connect(): void {
    const url = new URL(terminalPath(session, size(), shell), location.href)
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
    const one = new WebSocket(url)
    one.binaryType = 'arraybuffer'
    socket = one
    one.addEventListener('message', ({ data }: MessageEvent<unknown>) => {
      if (one !== socket || over) return
      if (data instanceof ArrayBuffer) return show(new Uint8Array(data))
      const said = FromTerminal.parse(JSON.parse(String(data)))
      if (said.t === 'ended') return end({ is: 'ended', why: said.why })
      // All that is kept is shown once more, from its beginning.
      terminal.reset()
      shell = said.shell
      sessionStorage.setItem(memory(session), shell)
      wasOpen = true
      tries = 0
      tell({ is: 'open' })
      terminal.focus()
    })
    one.addEventListener('close', () => {
      if (one !== socket || over) return
      if (!wasOpen && !proved) {
        proved = true
        void prove?.().then(
          (shown) =>
            !over && (shown ? connect() : end({ is: 'refused', why: 'The terminal needs a fresh proof of who you are' })),
        )
        return
      }
      if (!wasOpen && ++tries >= triesMax)
        return end({
          is: 'refused',
          why: 'The terminal could not be opened: its cell does not start, this device may not enter it, or it has no wall and you must log in anew first',
        })
      tell({ is: wasOpen ? 'lost' : 'opening' })
      clearTimeout(retry)
      retry = setTimeout(connect, againMs[Math.min(tries++, againMs.length - 1)])
    })
  }
  function show(bytes: Uint8Array): void {
    terminal.write(bytes, () => {
      shown += bytes.length
      if (shown < seenStep) return
      say({ t: 'seen', bytes: shown })
      shown = 0
    })
  }
  function end(state: TerminalState): void {
    over = true
    sessionStorage.removeItem(memory(session))
    tell(state)
    socket?.close()
  }

  terminal.onData(type)
  terminal.onBinary((text) => socket?.readyState === WebSocket.OPEN && socket.send(Uint8Array.from(text, (c) => c.charCodeAt(0))))
  terminal.onResize(() => say({ t: 'size', ...size() }))
  const resized = new ResizeObserver(() => fit.fit())
  resized.observe(element)
  /** A connection that came back, or a page that slept, does not wait for the next try. */
  const again = () => {
    if (over || socket?.readyState === WebSocket.OPEN || socket?.readyState === WebSocket.CONNECTING) return
    clearTimeout(retry)
    connect()
  }
  const listening = new AbortController()
  addEventListener('online', again, { signal: listening.signal })
  document.addEventListener('resume', again, { signal: listening.signal })
  document.addEventListener('visibilitychange', () => document.visibilityState === 'visible' && again(), {
    signal: listening.signal,
  })
  const recoloured = onScheme(() => (terminal.options.theme = themeNow()))

  tell({ is: 'opening' })
  connect()

  return {
    type(text: string) {
      type(text)
      terminal.focus()
    },
    /** Ends the shell. */
    close: () => say({ t: 'close' }),
    /** Leaves it as it is, for whoever comes back. */
    leave() {
      over = true
      clearTimeout(retry)
      listening.abort()
      recoloured()
      resized.disconnect()
      socket?.close()
      terminal.dispose()
    },
  }
}

function themeNow() {
  const colours = getComputedStyle(document.documentElement)
  const colour = (name: string) => resolved(colours.getPropertyValue(name))
  return {
    background: colour('--page'),
    foreground: colour('--ink'),
    cursor: colour('--accent'),
    selectionBackground: colour('--line-strong'),
  }
}

/** A colour as the page shows it now: the terminal knows nothing of light and dark. */
function resolved(value: string): string {
  const probe = document.createElement('span')
  probe.style.color = value
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}
