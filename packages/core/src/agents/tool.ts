/** What a call of an agent's tool does, as far as the house has to know, and in which field of its input that stands. A tool of which
 *  nothing is said here is judged by its name and its input alone. */
export type Tool = {
  /** Hands the text of this field to a shell. */
  readonly command?: string
  /** Is about the file or folder in this field. */
  readonly path?: string
  /** Looks through the folder in `path`, or through the one that its shell stands in. */
  readonly searches?: true
  /** A field with a pattern that may lead elsewhere than `path` says. */
  readonly pattern?: string
  /** Calls the address in this field. */
  readonly url?: string
  /** Fields that only describe the call, and change nothing that it does. */
  readonly describes?: readonly string[]
  /** The name that this tool has now. */
  readonly now?: string
  /** A person answers it, whatever the policy says. */
  readonly forPeople?: true
}
export type Tools = Readonly<Record<string, Tool>>
