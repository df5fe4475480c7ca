import { promptOfUuid, uuidOfPrompt } from '@anchorhold/protocol/ids'
import { netToolServer } from '@anchorhold/protocol/net-calls'
import { slownessOf } from '@anchorhold/protocol/rungs'
import { type SlashCommand, slashCommandsMax } from '@anchorhold/protocol/workspace'
import { query, type Query, type SDKUserMessage, type SpawnedProcess } from '@anthropic-ai/claude-agent-sdk'
import { randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import type { CellProcess } from '../../cells/cell.ts'
import type { Agent, AgentDriver, AgentPrompt, AgentStart } from '../agent.ts'
import { netCalls } from '../net-calls.ts'
import { besideNet, netEnvironment } from '../net-route.ts'
import { settingsEnvironment } from '../../cell-settings.ts'
import { trustEnvironment } from '../../trust.ts'
import { readPage } from '../read-page.ts'
import { agentMounts, claudeEnvironment } from './environment.ts'
import { heldOutput, lineBytesMax } from '../held-output.ts'
import { inbox } from './inbox.ts'
import { workspaceInstructions } from './instructions.ts'
import { netToolsServer } from './net-tools.ts'
import { toolChecks } from './tool-use.ts'
import { forgetAfter, forgetOwnWords, noMemory, readTranscript } from './transcript.ts'
import { claudeTranslator } from './translate.ts'

/** How long an agent whose input has ended may take to end. */
const farewellMs = 2000

/** What a coding agent needs in a cell without network. Those that reach outside, speak to other sessions of the
 *  machine or keep timers of their own are left out. */
const defaultTools = [
  ...['Agent', 'AskUserQuestion', 'Bash', 'Edit', 'EnterPlanMode', 'ExitPlanMode', 'Glob', 'Grep', 'NotebookEdit', 'Read'],
  ...['TaskCreate', 'TaskGet', 'TaskList', 'TaskStop', 'TaskUpdate', 'TodoWrite', 'Write'],
]

/** The agent's own reads pages by way of its maker, and by its own rules: ours stands in its place. */
const ownFetch = 'WebFetch'

/** The Claude Agent SDK on this side of the wall, the unmodified CLI on the other, over standard streams. */
export const claudeDriver: AgentDriver = {
  name: 'claude',
  shellSnapshots: '.claude/shell-snapshots',
  mounts: agentMounts,
  start,
}

async function start(options: AgentStart): Promise<Agent> {
  const { cell, heard } = options
  const nonce = randomBytes(4).toString('hex')
  let blocks = 0
  const translate = claudeTranslator(heard, () => `${nonce}-${++blocks}`)
  const cwd = cell.place(options.workspace)
  const prompts = inbox<SDKUserMessage>()
  const abort = new AbortController()
  const uuids = options.unfinished.map(uuidOfPrompt)
  const transcript = { cell, home: cell.place(options.home), conversation: options.conversation }
  if (options.resume && options.forgetAfter.length > 0) await forgetAfter(transcript, options.forgetAfter)
  const memory = options.resume ? await readTranscript(transcript, uuids) : noMemory
  const unseen = options.unfinished.filter((id) => !memory.known.has(uuidOfPrompt(id)))
  // Where the agent remembers nothing of what was cut short, there is nothing to go on with: it is told anew.
  const takesUp = options.takeUp && memory.begun && (uuids.length === 0 || unseen.length < uuids.length)
  if (takesUp) await forgetOwnWords(transcript)
  // Read while the rest is made.
  const append = appendix(options)
  append.catch(() => {})
  const netServer = options.network === 'proxy_only' ? netToolsOf(options, cwd) : null
  const checks = toolChecks(heard, { netTools: netServer !== null })
  let process: CellProcess | null = null
  let stderrTail = ''
  /** Why it was ended from here, where it was. */
  let ended: string | null = null

  function tooLong(): void {
    ended = `The agent was ended: it wrote a line of more than ${lineBytesMax / 2 ** 20} MiB, which no message is`
    process?.kill('SIGKILL')
  }

  const session: Query = query({
    prompt: prompts.stream,
    options: {
      cwd,
      env: { ...environmentOf(options), ...(takesUp ? { CLAUDE_CODE_RESUME_INTERRUPTED_TURN: '1' } : {}) },
      pathToClaudeCodeExecutable: cell.place(options.files.program),
      spawnClaudeCodeProcess: ({ command, args, env }) => {
        process = cell.spawn(routed(options, [command, ...args]), { env: definedOnly(env), cwd })
        process.stderr.setEncoding('utf8').on('data', (text: string) => {
          stderrTail = (stderrTail + text).slice(-4000)
        })
        return spawned(process, heldOutput(process.stdout, { stored: heard.stored, tooLong }, abort.signal))
      },
      model: options.model,
      ...(memory.begun ? { resume: options.conversation } : { sessionId: options.conversation }),
      // Never bypassed: under bypass a question never arrives here.
      permissionMode: options.plan ? 'plan' : 'default',
      canUseTool: checks.canUseTool,
      hooks: { PreToolUse: [checks.preToolUse] },
      tools: (options.tools ?? defaultTools).filter((name) => name !== ownFetch),
      ...(netServer === null ? {} : { mcpServers: { [netToolServer]: netServer } }),
      settingSources: options.workspaceSettings === 'load' ? ['project'] : [],
      strictMcpConfig: options.workspaceSettings === 'ignore',
      settings: { cleanupPeriodDays: 36_500 },
      includePartialMessages: true,
      forwardSubagentText: true,
      systemPrompt: { type: 'preset', preset: 'claude_code', append: await append },
      abortController: abort,
      stderr: () => {},
    },
  })

  let closing = false
  const reading = (async () => {
    try {
      for await (const message of session) translate(message)
    } catch (error) {
      // After an error result the iterator throws as well; the result has been heard by then.
      if (!closing) return heard.gone(ended ?? tellError(error, stderrTail))
    }
    if (!closing) heard.gone(ended ?? (stderrTail.trim().slice(-500) || 'The agent ended by itself'))
  })()

  return {
    unseen,
    resumed: memory.begun,
    send: (prompt) => prompts.push(userMessage(prompt)),
    remind: (prompt) => prompts.push({ ...userMessage(prompt), shouldQuery: false }),
    async interrupt() {
      // By itself the CLI would begin at once with whatever else it was given. The SDK does this, and does not say so in its types.
      const whole = session as Query & { interrupt(how: { cancelQueued: boolean }): ReturnType<Query['interrupt']> }
      const { cancelled = [] } = (await whole.interrupt({ cancelQueued: true })) ?? {}
      return cancelled.flatMap((uuid) => promptOfUuid(uuid) ?? [])
    },
    async setModel(model) {
      await session.setModel(model)
    },
    answers: async () => void (await session.mcpServerStatus()),
    commands: async () => commandsIn(await session.supportedCommands()),
    async [Symbol.asyncDispose]() {
      if (closing) return reading
      closing = true
      prompts.end()
      // At the end of its input it writes down the rest of the conversation, and goes.
      process?.stdin.end()
      await Promise.race([process?.exited, wait(farewellMs, undefined, { ref: false })])
      process?.kill('SIGKILL')
      abort.abort()
      await reading
    },
  }
}

/** They come out of the cell, where a workspace may have added its own. */
const commandsIn = (found: readonly unknown[]): SlashCommand[] =>
  found.slice(0, slashCommandsMax).flatMap((one) => {
    const { data } = FoundCommand.safeParse(one)
    return data === undefined ? [] : [{ name: data.name, description: data.description, hint: data.argumentHint }]
  })
const words = (max: number) =>
  z
    .string()
    .catch('')
    .transform((text) => text.slice(0, max))
const FoundCommand = z.object({
  name: z.string().regex(/^[\w:.-]{1,200}$/),
  description: words(1000),
  argumentHint: words(200),
})

/** The SDK's messages can be megabytes of minified source: the first line is what a person can use. */
function tellError(error: unknown, stderr: string): string {
  const words = error instanceof Error ? error.message : String(error)
  return [words.split('\n')[0]!.slice(0, 500), stderr.trim().slice(-500)].filter((part) => part !== '').join(': ')
}

function userMessage({ id, text, images }: AgentPrompt): SDKUserMessage {
  const pictures = images.map((image) => ({
    type: 'image' as const,
    source: { type: 'base64' as const, media_type: image.media_type, data: image.data },
  }))
  return {
    type: 'user',
    uuid: uuidOfPrompt(id),
    message: { role: 'user', content: pictures.length === 0 ? text : [...pictures, { type: 'text' as const, text }] },
    parent_tool_use_id: null,
    origin: { kind: 'human' },
  }
}

/** What the agent reaches outside by tools of its own. */
function netToolsOf({ cell, files, windows }: AgentStart, cwd: string) {
  const reader = { cell, node: cell.place(files.node), program: cell.place(files.reader), cwd }
  return netToolsServer({ calls: netCalls(`${windows}/net.sock`), read: (page) => readPage(page, reader) })
}

const forwarderPort = 8377

/** The agent's command with what carries its loopback. Its model is there before it starts; a net window is not waited for: the
 *  agent takes longer to start, and so does whatever first wants to go out. */
function routed(options: AgentStart, command: readonly [string, ...string[]]): readonly [string, ...string[]] {
  const { cell, files } = options
  const forwarder = [cell.place(files.node), cell.place(files.forwarder)] as const
  const withModel: readonly [string, ...string[]] =
    options.modelRoute === 'forwarder' ? [...forwarder, `${forwarderPort}=${modelSocket(options)}`, '--', ...command] : command
  if (options.network !== 'proxy_only') return withModel
  return besideNet(forwarder, cell.place(options.windows), withModel)
}

const environmentOf = (options: AgentStart) =>
  claudeEnvironment({
    home: options.cell.place(options.home),
    model: options.modelRoute === 'socket' ? { socket: modelSocket(options) } : { port: forwarderPort },
    path: options.path,
    slowness: slownessOf(options.cell.limits),
    env: {
      ...(options.network === 'proxy_only' ? netEnvironment : {}),
      ...(options.trust === null ? {} : toldOf(options.cell.place(options.trust))),
      ...options.env,
    },
  })
/** Whom programs in the cell trust, and what they must be told beside that. */
const toldOf = (folder: string) => ({ ...trustEnvironment(folder), ...settingsEnvironment(folder) })
const modelSocket = ({ cell, windows }: AgentStart) => `${cell.place(windows)}/model.sock`

async function appendix(options: AgentStart): Promise<string> {
  const place = options.cell.place(options.workspace)
  const parts = [
    `You work in an isolated cell of the Anchorhold. The workspace is ${place}. ${networkWords[options.network]}`,
    await workspaceInstructions(options.cell, options.workspace),
    options.systemPrompt ?? '',
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

const networkWords: Readonly<Record<AgentStart['network'], string>> = {
  none: 'The cell has no network; only the model can be reached.',
  proxy_only:
    'The cell has no network of its own: HTTP and HTTPS go through a proxy that the environment names, which lets through what rules open. A call that is blocked is answered with 403 and JSON that says what was blocked; ask for it with the tool request_access, and read web pages with web_fetch. There is no way around it.',
  host: 'It has the network of its host.',
}

const definedOnly = (env: Readonly<Record<string, string | undefined>>): Record<string, string> =>
  Object.fromEntries(Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined))

/** A cell's process as the SDK wants to see it. */
function spawned(process: CellProcess, stdout: Readable): SpawnedProcess {
  const events = new EventEmitter()
  void process.exited.then((code) => events.emit('exit', code, null))
  type Listener = (...values: unknown[]) => void
  return {
    stdin: process.stdin,
    stdout,
    get killed() {
      return process.killed
    },
    get exitCode() {
      return process.exitCode
    },
    kill: (signal: NodeJS.Signals) => process.kill(signal),
    on: (event: string, listener: Listener) => void events.on(event, listener),
    once: (event: string, listener: Listener) => void events.once(event, listener),
    off: (event: string, listener: Listener) => void events.off(event, listener),
  } as SpawnedProcess
}
