export { Module, type Parameter, type RunState } from "./module.ts";
