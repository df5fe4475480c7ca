import type { LiveFrame, NewEvent, RequestAction, RequestAnswer } from '@anchorhold/protocol/events'
import type { PromptId } from '@anchorhold/protocol/ids'
import type { ContextUse, Image, Network } from '@anchorhold/protocol/sessions'
import type { SlashCommand } from '@anchorhold/protocol/workspace'
import type { Cell } from '../cells/cell.ts'

/** One kind of coding agent: how it is started in a cell and spoken to over its standard streams. */
export interface AgentDriver {
  readonly name: string
  /** A folder of the home in which the agent's shell writes down its variables, so that it is known what a command's name stands for there. */
  readonly shellSnapshots: string | null
  /** Read-only host files that the agent needs inside, as `CellSpec.mounts`. */
  mounts(files: AgentFiles): readonly { readonly source: string; readonly target: string }[]
  start(options: AgentStart): Promise<Agent>
}

/** Host files: the agent's own program, Node, what forwards the cell's loopback to windows, and what makes text of pages. */
export type AgentFiles = { readonly program: string; readonly node: string; readonly forwarder: string; readonly reader: string }

/** A live agent. Disposing it ends its process, and may be done twice. */
export interface Agent extends AsyncDisposable {
  /** Of the unfinished prompts that it was started with, those that it has no memory of. */
  readonly unseen: readonly PromptId[]
  /** Whether it goes on with a conversation that it has written down. */
  readonly resumed: boolean
  /** Begins a turn, or reaches the running one at its next step. */
  send(prompt: AgentPrompt): void
  /** Lets it know of a prompt without beginning a turn: it belongs to the next one. */
  remind(prompt: AgentPrompt): void
  /** Ends the running turn; the agent stays usable. What it was given and had not come to is let go, and named. */
  interrupt(): Promise<readonly PromptId[]>
  setModel(model: string): Promise<void>
  /** Resolves when it has answered at all. */
  answers(): Promise<void>
  /** What it knows by name, for whoever writes a prompt. */
  commands(): Promise<readonly SlashCommand[]>
}

export type AgentPrompt = { readonly id: PromptId; readonly text: string; readonly images: readonly Image[] }

export type AgentStart = {
  readonly cell: Cell
  readonly files: AgentFiles
  /** Host paths; the agent sees them where the cell places them. */
  readonly workspace: string
  readonly home: string
  readonly windows: string
  readonly model: string
  readonly conversation: string
  readonly resume: boolean
  /** The last messages to be remembered, the newest first; empty for all. */
  readonly forgetAfter: readonly string[]
  /** Prompts of a turn that a crash cut short. */
  readonly unfinished: readonly PromptId[]
  /** Whether to go on with that turn, as far as the agent remembers it, without being asked. */
  readonly takeUp: boolean
  readonly tools: readonly string[] | null
  readonly systemPrompt: string | null
  readonly plan: boolean
  readonly workspaceSettings: 'ignore' | 'load'
  readonly modelRoute: 'socket' | 'forwarder'
  /** With `proxy_only` a net window stands beside the model's. */
  readonly network: Network
  /** Whom programs in the cell are told to trust; null where they trust whom they would anyway. */
  readonly trust: string | null
  /** Toolchain folders for PATH and further variables. */
  readonly path: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly heard: AgentListener
}

/** What an agent tells its keeper. All of it comes out of the cell: bounded before it gets here, trusted by nobody. */
export interface AgentListener {
  /** To be stored. */
  event(event: NewEvent): void
  /** Resolves when everything that was told to be stored is on the disk. Whoever may be flooded waits for it before it tells more. */
  stored(): Promise<void>
  /** To be shown now. */
  live(frame: LiveFrame): void
  state(state: 'running' | 'idle'): void
  /** How many background tasks of the agent live. */
  tasks(count: number): void
  /** A piece of work has ended. The prompts it took up are named. */
  result(result: AgentResult): void
  /** Something only a person can answer. Rejects when the agent no longer wants to know. */
  ask(action: RequestAction, call: string | null, signal: AbortSignal): Promise<RequestAnswer>
  /** Whether a tool may run now; waits while the session is paused, and while a person is asked. `folder` is where the agent's shell
   *  stands, as far as it says so. */
  mayRun(
    tool: string,
    input: Readonly<Record<string, unknown>>,
    call: string,
    signal: AbortSignal,
    folder?: string,
  ): Promise<{ readonly allow: true } | { readonly allow: false; readonly why: string }>
  /** The agent's process has gone. */
  gone(why: string): void
}

export type AgentResult = {
  readonly ok: boolean
  readonly why: string | null
  readonly prompts: readonly PromptId[]
  /** Missing where the agent does not say. */
  readonly context?: ContextUse
}
