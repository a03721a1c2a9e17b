"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const say = (lines, x, y) => {
    tip.replaceChildren();
    lines.forEach((line, i) => {
      const part = document.createElement(i ? "div" : "b");
      part.textContent = line;
      tip.append(part);
    });
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 14 + box.height > innerHeight ? y - 14 - box.height : y + 14;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  };
  const hush = () => { tip.hidden = true; };

  for (const [id, chart] of Object.entries(data.charts)) {
    const svg = document.getElementById(id);
    if (!svg || !chart.x) continue;
    const cross = svg.querySelector(".cross");
    let now = -1;
    const point = (i, y) => {
      now = i;
      const box = svg.getBoundingClientRect();
      cross.removeAttribute("hidden");
      cross.setAttribute("transform", `translate(${chart.x[i]} 0)`);
      say(chart.says[i], box.left + chart.x[i] * box.width / svg.viewBox.baseVal.width, y ?? box.top + box.height / 3);
    };
    const leave = () => { cross.setAttribute("hidden", ""); hush(); };
    svg.addEventListener("pointermove", (e) => {
      const box = svg.getBoundingClientRect();
      const x = (e.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
      let best = 0;
      chart.x.forEach((at, i) => { if (Math.abs(at - x) < Math.abs(chart.x[best] - x)) best = i; });
      point(best, e.clientY);
    });
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[e.key];
      if (e.key === "Escape") leave();
      if (!step) return;
      e.preventDefault();
      point(Math.min(Math.max(now + step, 0), chart.x.length - 1));
    });
  }

  const map = document.querySelector(".map");
  const cells = [...map.querySelectorAll(".cells i")];
  const index = new Map(cells.map((cell, i) => [cell, i]));
  const number = (n) => n.toLocaleString("en", { maximumFractionDigits: 1 });
  const percent = (part, all) => all > 0 ? ` (${Math.round(100 * part / all)} %)` : "";
  const describe = (i) => {
    const [name, shape, ...use] = data.nodes[i];
    const [machine, model, cpu, mib, gpu, most] = data.shapes[shape];
    const [pods, online, offline, memory, gpus] = document.getElementById("when-final").checked ? use.slice(5) : use.slice(0, 5);
    const lines = [name];
    if (machine) lines.push(machine);
    lines.push(`CPU ${number((online + offline) / 1000)} of ${number(cpu / 1000)} cores${percent(online + offline, cpu)}`);
    if (online && offline) lines.push(`online ${number(online / 1000)}, offline ${number(offline / 1000)} cores`);
    else if (online || offline) lines.push(online ? "all online" : "all offline");
    lines.push(`memory ${number(memory / 1024)} of ${number(mib / 1024)} GiB${percent(memory, mib)}`);
    if (gpu) lines.push(`GPU ${number(gpus / 1000)} of ${number(gpu / 1000)} ${model}${percent(gpus, gpu)}`);
    lines.push(most ? `${number(pods)} of ${number(most)} pods` : `${number(pods)} pods`);
    return lines;
  };
  let marked = -1;
  const mark = (i, x, y) => {
    cells[marked]?.classList.remove("on");
    marked = i;
    if (i < 0) return hush();
    cells[i].classList.add("on");
    const box = cells[i].getBoundingClientRect();
    say(describe(i), x ?? box.right, y ?? box.bottom);
  };
  map.addEventListener("pointermove", (e) => mark(index.get(e.target) ?? -1, e.clientX, e.clientY));
  map.addEventListener("pointerleave", () => mark(-1));
  map.addEventListener("blur", () => mark(-1));
  map.addEventListener("keydown", (e) => {
    if (e.key === "Escape") return mark(-1);
    if (!cells.length || !e.key.startsWith("Arrow")) return;
    e.preventDefault();
    let next = marked + ({ ArrowRight: 1, ArrowLeft: -1 }[e.key] ?? 0);
    if (marked >= 0 && (e.key === "ArrowDown" || e.key === "ArrowUp")) {
      const wide = Math.max(1, Math.round(cells[0].parentElement.clientWidth / (cells[0].offsetWidth + 2.5)));
      next = marked + (e.key === "ArrowDown" ? wide : -wide);
    }
    mark(Math.min(Math.max(next, 0), cells.length - 1));
  });
})();
