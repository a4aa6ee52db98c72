// Photos from the webcam. Browsers give it only to pages of this machine or behind https.

import { toast } from "./base.js";

const dialog = document.getElementById("camera");
const video = dialog.querySelector("video");
const said = dialog.querySelector("[role=status]");
export const hasCamera = Boolean(navigator.mediaDevices?.getUserMedia);

export async function shoot(take) {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
  } catch (error) {
    toast(`No camera: ${error.message}`);
    return;
  }
  let count = 0;
  said.textContent = "";
  video.srcObject = stream;
  dialog.querySelector("[data-act=shoot]").onclick = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [video.videoWidth, video.videoHeight];
    if (!canvas.width) return;
    canvas.getContext("2d").drawImage(video, 0, 0);
    canvas.toBlob((photo) => {
      take([photo]);
      count += 1;
      said.textContent = `${count} taken`;
    }, "image/jpeg", 0.92);
  };
  dialog.querySelector("[data-act=done]").onclick = () => dialog.close();
  dialog.onclose = () => stream.getTracks().forEach((track) => track.stop());
  dialog.showModal();
}
