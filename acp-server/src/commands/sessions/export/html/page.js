"use strict";
// Conveniences only: the page reads the same without them.
const folds = [...document.querySelectorAll("main details")];
const tools = document.createElement("div");
tools.className = "tools";
for (const [label, open] of [["Expand all", true], ["Collapse all", false]]) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = label;
  button.addEventListener("click", () => folds.forEach((fold) => { fold.open = open; }));
  tools.append(button);
}
document.querySelector("nav").append(tools);
// The table of turns starts folded where it stands above the turns.
if (matchMedia("(max-width: 60rem)").matches) {
  document.querySelector(".contents").open = false;
}
